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

# Their variables stay set, or are those of the shell.
_BUILTINS_TEXT = (
    "cd pushd popd chdir export declare typeset local readonly unset set shopt setopt command : times umask ulimit "
    "alias unalias hash enable type bg fg jobs kill test [ return exit break continue shift true false echo printf"
)
_BUILTINS = _SETTERS | frozenset(_BUILTINS_TEXT.split())
# They say which program runs, or what a shell does with words.
_SPECIAL_NAME = re.compile(
    r"(?:.*_)?PATH|LD_.*|DYLD_.*|IFS|ENV|HOME|SHELL.*|BASH.*|ZDOTDIR|ZSH.*|PS[0-9]|PROMPT.*|GLOBIGNORE|GCONV.*|POSIXLY.*|"
    r"OPT(?:IND|ARG|ERR)|PWD|OLDPWD|TERMCAP|TERMINFO|NULLCMD|READNULLCMD|FPATH|path|fpath|cdpath|argv|TMOUT|LC_.*|LANG.*"
)


def is_harmless_name(name: str) -> bool:
    """Return whether no shell and no program reads the variable."""
    return name in _UPPER_NAMES or (_LOWER_NAME.fullmatch(name) is not None and name not in _ZSH_NAMES)


def may_set_variables(words: tuple[str, ...]) -> bool:
    """Return whether the command may give variables other values."""
    return not _SETTERS.isdisjoint(words) or (words[0] == "printf" and "-v" in " ".join(words))


def spell_environment(assignments: list[tuple[str, Word]], program: str) -> tuple[str, ...]:
    """Return the words that set these variables for a program.

    `A=1 make` is `env A=1 make`; () if they change nothing, such as `CI=1`. Raise NotPlain if they may change what the
    words mean.
    """
    form = find_program("env")
    harmless = form.assign if form is not None else None
    texts = tuple(f"{name}={word.text}" for name, word in assignments)
    if harmless is not None and all(map(harmless.fullmatch, texts)) and not any(word.number for _, word in assignments):
        return ()
    is_plain = all(not word.number and not _SPECIAL_NAME.fullmatch(name) for name, word in assignments)
    if not is_plain or program in _BUILTINS or find_program(program) is form:
        raise NotPlain("it begins with an assignment or nothing")
    return ("env", *texts)
