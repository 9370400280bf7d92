"""Edits of named files by commands: `sed -i` and `perl -pi` with plain replacements, and patches for `apply_patch`."""

from __future__ import annotations

import re

from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.truth import TRUE

_SED_OPTIONS = re.compile(r"-[Ernsz]+|-[Ern]*i(?:\.\w{1,8})?|--in-place|--regexp-extended|--quiet")
_PERL_OPTIONS = re.compile(r"-(?:0(?:777)?)?[pni]*(?:\.\w{1,8})?e?")
# No code in the pattern, no variables but groups, and no flag that runs the replacement.
_PERL = re.compile(
    r"(?:s/(?:\\[^\n]|[^/\\\n@$`(]|\((?!\?\??\{|\?p)|\$(?=[/|)]))*/(?:\\[^\n]|[^/\\\n@$`]|\$\d)*/[gimsx]*;?\s*)+"
)
_MAX_PATCH = 100_000


def edits_files(words: tuple[str, ...], globs: Globs, folder: Project | None) -> bool:
    """Return whether a command only replaces text in named files."""
    if folder is None or globs.every:
        return False
    if words[0] == "apply_patch" and len(words) == 2:
        return _patches_inside(words[1], folder)
    if words[0] not in {"sed", "gsed", "perl"}:
        return False
    form = find_program("sed")
    is_perl = words[0] == "perl"
    pattern = _PERL if is_perl else form.script if form is not None else None
    options, scripts, names = _split_words(words[1:], is_perl=is_perl)
    flags = "".join(option for option in options if not option.startswith("--"))
    is_in_place = "i" in flags or "--in-place" in options
    loops = not is_perl or "p" in flags
    are_plain = pattern is not None and bool(scripts) and all(map(pattern.fullmatch, scripts))
    return is_in_place and loops and are_plain and bool(names) and all(folder.locate(name) is TRUE for name in names)


def _split_words(words: tuple[str, ...], *, is_perl: bool) -> tuple[list[str], list[str], list[str]]:
    """Return the options, the scripts and the files; no scripts if an option is not known."""
    options: list[str] = []
    scripts: list[str] = []
    names: list[str] = []
    takes_script = False
    for place, word in enumerate(words):
        if takes_script:
            scripts.append(word)
            takes_script = False
        elif word == "" and options[-1:] == ["-i"] and not is_perl:  # of BSD: no copy
            continue
        elif word.startswith("-") and not names:
            if word != "-e" and not (_PERL_OPTIONS if is_perl else _SED_OPTIONS).fullmatch(word):
                return [], [], []
            options.append(word)
            takes_script = word == "-e" or (is_perl and word.endswith("e"))
        elif not scripts and not is_perl and "-e" not in words[place:]:
            scripts.append(word)
        else:
            names.append(word)
    return options, scripts, names


def _patches_inside(text: str, folder: Project) -> bool:
    if len(text) > _MAX_PATCH:
        return False
    patch = read_patch(text)
    is_plain = patch.certain and not patch.deletes and bool(patch.paths)
    return is_plain and all(folder.locate(path) is TRUE for path in patch.paths)
