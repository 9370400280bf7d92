"""Python on a command line (`python -c`, a here-document): whether it only calculates, or works in the project.

The code is parsed and never run. Only modules on a list may be used, none of which can read or write files, and paths
only as they are spelled. Libraries for tables are not on it: too many of their methods write files.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import lru_cache
from importlib.resources import files

from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.work.tame_words import is_loud
from toolcards.core.policy.truth import TRUE

# Edits of named files by commands: `sed -i` and `perl -pi` with plain replacements, and patches for `apply_patch`.
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


MAX_CODE = 8 * 1024  # characters
CALCULATES = "project"  # the classes of work
WRITES_FILES = "files"
RUNS_PROJECT = "scripts"
_WORDS = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(files(__package__).joinpath("inline_code.toml").read_text("utf-8")).items()
}
_PUBLIC_MARKS = frozenset({"__version__", "__name__", "__doc__"})
_PATH_METHODS = frozenset({"read_text", "exists", "is_file", "is_dir", "stat", "name", "stem", "suffix", "read_bytes"})
_MOVING_METHODS = frozenset({"replace", "copy", "move", "copy_into", "move_into"})  # of a path
_MODES = re.compile(r"[rwxa]b?t?")
_OUTSIDE = re.compile(r"^[/~\\]|\.\.(?:[/\\]|$)|://|^[A-Za-z]:|\$")
_DOCUMENT = re.compile(r"<<'?\"?(\w+)['\"]? *(?:2>&1)? *\n([\s\S]*)\n\1\Z")
_PYTHONS = frozenset({"python", "python3"})


class _NotUnderstood(Exception):
    """Something in the code is on no list."""


@lru_cache(maxsize=128)
def find_code_work(code: str, project: Project | None) -> str:
    """Return the class of work of Python code, or ""."""
    if len(code) > MAX_CODE or "\0" in code:
        return ""
    try:
        tree = ast.parse(code)
        reader = _CodeReader(project)
        reader.read(tree)
    except (_NotUnderstood, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if reader.writes:
        return "" if reader.runs_project else WRITES_FILES
    return RUNS_PROJECT if reader.runs_project else CALCULATES


def only_calculates(code: str) -> bool:
    """Return whether code certainly reads no file and changes nothing."""
    return find_code_work(code, None) == CALCULATES


def add_document(words: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the words with a here-document that is code among them.

    Code is Python or a patch.
    """
    document = _DOCUMENT.search(text)
    start = words[:-1] if words[-1] == "-" else words
    if document is None or not start:
        return words
    if words == ("apply_patch",):
        return (*words, document[2])
    return (*start, "-c", document[2]) if start[-1].rpartition("/")[2] in _PYTHONS else words


class _CodeReader:
    """Reads one program; raises _NotUnderstood at the first thing that is on no list."""

    def __init__(self, project: Project | None) -> None:
        self.writes = self.runs_project = False
        self._project = project
        self._uses_paths = False
        self._allowed: set[ast.AST] = set()  # names that are checked where they are called

    def read(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        for node in nodes:
            if type(node).__name__ not in _WORDS["nodes"] and not isinstance(
                node, ast.operator | ast.unaryop | ast.boolop | ast.cmpop
            ):
                raise _NotUnderstood
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._read_call(node)
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div) and self._uses_paths:
                raise _NotUnderstood  # of a path, it leads anywhere
        for node in nodes:
            self._read_name(node)

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = [alias.name for alias in node.names]
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
        if isinstance(node, ast.ImportFrom):
            if node.level or any(name == "*" for name in names):
                raise _NotUnderstood
            for name in names:
                self._check_attribute(name)
        for alias in node.names:
            if alias.asname is not None and (
                alias.asname in {"open", "Path", *_WORDS["builtins"]} or alias.asname.startswith("_")
            ):
                raise _NotUnderstood
        for module in modules:
            head = module.partition(".")[0]
            if module == "pathlib" and names == ["Path"] and self._project is not None:
                self._uses_paths = True
            elif self._is_own(head) and not is_loud(module):
                self.runs_project = True
            elif module not in _WORDS["calculating"]:
                raise _NotUnderstood
        if self.runs_project and any(map(is_loud, names)):
            raise _NotUnderstood

    def _is_own(self, head: str) -> bool:
        """Return whether a module is the project's package: it has the name of its folder."""
        names = self._project.root.parts if self._project is not None else ()
        return bool(names) and head == names[-1].lower().replace("-", "_") and head not in sys.stdlib_module_names

    def _read_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id == "open" or (function.id == "Path" and self._uses_paths):
                self._read_file(node, function)
            return
        if not isinstance(function, ast.Attribute):
            return
        if function.attr in {"write_text", "write"} and (self._uses_paths or self.writes):
            self.writes = True
            self._allowed.add(function)
        elif function.attr == "replace" and len(node.args) > 1 and not _has_star(node):  # of a text, not of a path
            self._allowed.add(function)

    def _read_file(self, node: ast.Call, function: ast.Name) -> None:
        """Read a call of `open` or `Path`: its path is written out, and so is its mode."""
        self._check_path(node.args[0] if node.args else None)
        modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
        if any(each.arg not in {"mode", "encoding", "newline", "errors"} for each in node.keywords):
            raise _NotUnderstood
        if function.id == "Path" and (len(node.args) != 1 or node.keywords):
            raise _NotUnderstood
        for mode in modes:
            if (
                not isinstance(mode, ast.Constant)
                or not isinstance(mode.value, str)
                or not _MODES.fullmatch(mode.value)
            ):
                raise _NotUnderstood
            self.writes = self.writes or not mode.value.startswith("r")
        if len(node.args) > 2:
            raise _NotUnderstood
        self._allowed.add(function)

    def _check_path(self, node: ast.expr | None) -> None:
        """Refuse a path that is not surely inside of the project."""
        text = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(text, str) or self._project is None or self._project.locate(text) is not TRUE:
            raise _NotUnderstood

    def _read_name(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and node not in self._allowed:
            self._check_attribute(node.attr)
        elif isinstance(node, ast.Name) and node not in self._allowed:
            is_file = node.id in {"open", "Path"} and not isinstance(node.ctx, ast.Store)
            if node.id.startswith("_") and node.id != "_" or is_file or node.id in _WORDS["refused_names"]:
                raise _NotUnderstood
            if isinstance(node.ctx, ast.Store) and node.id in {"open", "Path", *_WORDS["builtins"]}:
                raise _NotUnderstood
        elif isinstance(node, ast.arg | ast.FunctionDef):
            name = node.arg if isinstance(node, ast.arg) else node.name
            if name in {"open", "Path", *_WORDS["builtins"]} or name.startswith("__"):
                raise _NotUnderstood
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and self._may_misuse(node.value):
            raise _NotUnderstood

    def _may_misuse(self, text: str) -> bool:
        """Return whether a text may be a path outside."""
        return self._uses_paths and _OUTSIDE.search(text) is not None

    def _check_attribute(self, name: str) -> None:
        is_hidden = name.startswith("_") and name not in _PUBLIC_MARKS
        is_reader = name.startswith(("to_", "read_")) and name not in _PATH_METHODS
        moves = self._uses_paths and name in _MOVING_METHODS
        if is_hidden or name in _WORDS["no_attributes"] or is_reader or moves:
            raise _NotUnderstood
        if is_loud(name) and (self.runs_project or name not in _WORDS["quiet"]):
            raise _NotUnderstood


def _has_star(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args)
