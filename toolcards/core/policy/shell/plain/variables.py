"""Variables of a line: the names that change nothing but the line itself, and those before a command."""

from __future__ import annotations

import re

from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.plain.words import NotPlain, Word

_LOWER_NAME = re.compile(r"(?!.*proxy$|npm_|zsh_)[a-z][a-z0-9_]*", re.ASCII)
# Names that no shell and no program reads. Others may already be in the environment of the programs.
_UPPER_NAMES_TEXT = (
    "A B C D E F I J K N P Q R S T V W X Y Z FILE FILES DIR NAME ID URL BASE SRC DST DEST OUT PR ISSUE BRANCH TAG SHA "
    "COMMIT REF NS POD SERVICE QUERY DATE START END LIMIT COUNT RC STATUS RESULT BODY MSG MESSAGE TITLE SINCE"
)
_UPPER_NAMES = frozenset(_UPPER_NAMES_TEXT.split())
_ZSH_NAMES_TEXT = (
    "path cdpath fpath manpath mailpath module_path prompt psvar watch status signals argv fignore histchars options "
    "aliases functions commands parameters pipestatus keymap dirstack nameddirs userdirs builtins galiases saliases "
    "words auto_resume term user home shell cwd modules jobstates jobtexts jobdirs reswords patchars history "
    "historywords funcstack functrace errnos sysparams mapfile widgets langinfo terminfo termcap epochtime"
)
_ZSH_NAMES = frozenset(_ZSH_NAMES_TEXT.split())
# They can give a variable another value.
_SETTERS_TEXT = "read mapfile readarray getopts let source . eval trap builtin exec wait vared zparseopts print sched"
_SETTERS = frozenset(_SETTERS_TEXT.split())


def is_harmless_name(name: str) -> bool:
    """Return whether no shell and no program reads the variable."""
    return name in _UPPER_NAMES or (_LOWER_NAME.fullmatch(name) is not None and name not in _ZSH_NAMES)


def may_set_variables(words: tuple[str, ...]) -> bool:
    """Return whether the command may give variables other values."""
    return not _SETTERS.isdisjoint(words) or (words[0] == "printf" and "-v" in " ".join(words))


def check_environment(assignments: list[tuple[str, Word]]) -> None:
    """Raise NotPlain unless the variables have no effect on the program."""
    form = find_program("env")
    harmless = form.assign if form is not None else None
    for name, word in assignments:
        if harmless is None or word.number or not harmless.fullmatch(f"{name}={word.text}"):
            raise NotPlain("it begins with an assignment or nothing")
