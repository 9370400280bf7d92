"""Which files an edit tool changes, by the catalog `edit_tools.toml`, and whether all are inside of the project."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from toolcards.client.common.tool_kinds import OWN
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

_KINDS = frozenset({"read", "edit", "delete", "move"})
_MAX_FILES, _MAX_DEPTH = 1_000, 6
_MAX_PATCH = 1_000_000
_CODE = re.compile(
    r"(?i)://|git\+|\|\s*\w*sh\b|(?:pre|post)[-_]?(?:install|pack|build|publish|prepare)|index|curl|wget|exec|\$\(|`|"
    r"build-backend|backend-path|repositor|mirror|\beval|script"
)
_SEPARATORS = re.compile(r"[\\/]")


@dataclass(frozen=True, slots=True)
class _EditCatalog:
    files: frozenset[str]
    trees: frozenset[str]
    patches: frozenset[str]
    paths: frozenset[str]
    folders: frozenset[str]
    texts: frozenset[str]
    diffs: frozenset[str]
    containers: frozenset[str]
    commands: frozenset[str]


@cache
def load_edit_tools() -> _EditCatalog:
    """Return the catalog of this package."""
    document = tomllib.loads(files(__package__).joinpath("edit_tools.toml").read_text(encoding="utf-8"))
    groups = document["tools"] | document["arguments"]
    return _EditCatalog(**{name: frozenset(text.split()) for name, text in groups.items()})


def names_code(value: Any) -> bool:
    """Return whether a text names code: an address or a hook."""
    if isinstance(value, dict | list):
        return any(map(names_code, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and _CODE.search(value) is not None


def locate_edits(request: PolicyRequest, project: Project) -> tuple[Truth, ...]:
    """Return for each file that the call changes whether it is inside.

    UNKNOWN is among the answers if the tool or one of its arguments is not known.
    """
    catalog = load_edit_tools()
    is_patch = request.tool in catalog.patches
    if request.source not in OWN or not set(request.kinds) <= _KINDS or not request.has_input:
        return (UNKNOWN,)
    if not is_patch and request.tool not in catalog.files | catalog.trees:
        return (UNKNOWN,)
    reader = _EditReader(catalog, project, request.tool in catalog.trees, is_patch)
    reader.read(request.input)
    return tuple(reader.answers) if TRUE in reader.answers or FALSE in reader.answers else (UNKNOWN,)


class _EditReader:
    """Collects the answers for the files in one input."""

    def __init__(self, catalog: _EditCatalog, project: Project, recursive: bool, is_patch: bool) -> None:
        self.answers: list[Truth] = []
        self._catalog, self._project, self._recursive, self._is_patch = catalog, project, recursive, is_patch

    def read(self, value: Any) -> None:
        """Read the whole input: an object, or the text of a patch."""
        if isinstance(value, dict):
            self._move(value)
            self._read_object(value, 0)
        elif isinstance(value, str) and self._is_patch:
            self._read_patch(value)
        else:
            self.answers.append(UNKNOWN)

    def _move(self, value: dict[str, Any]) -> None:
        for key in value.keys() & self._catalog.folders:
            folder = value[key]
            project = self._project.move(folder) if isinstance(folder, str) else None
            if project is None and folder not in (None, ""):
                self.answers.append(UNKNOWN)
            self._project = project or self._project
        if len(value.keys() & self._catalog.folders) > 1:
            self.answers.append(UNKNOWN)

    def _read_object(self, value: dict[str, Any], depth: int) -> None:
        for key, each in value.items():
            if depth or key not in self._catalog.folders:
                self._read_argument(key, each, depth)

    def _read_argument(self, key: str, value: Any, depth: int) -> None:
        if value is None or isinstance(value, bool | int | float) or value in ("", [], {}):
            return
        if depth > _MAX_DEPTH or len(self.answers) > _MAX_FILES:
            self.answers.append(UNKNOWN)
        elif isinstance(value, list):
            for each in value:
                self._read_argument(key, each, depth + 1)
        elif isinstance(value, dict):
            if key in self._catalog.containers:
                self._read_object(value, depth + 1)
            else:  # an object in place of a text may name more files
                self.answers.append(UNKNOWN)
        else:
            self._read_text(key, value)

    def _read_text(self, key: str, text: str) -> None:
        catalog = self._catalog
        if key in catalog.paths:
            self.answers.append(self._locate(text))
        elif key in catalog.diffs or (key == "command" and self._is_patch):
            self._read_patch(text)
        elif not (key in catalog.texts or (key == "command" and text in catalog.commands)):
            self.answers.append(UNKNOWN)

    def _read_patch(self, text: str) -> None:
        if len(text) > _MAX_PATCH:
            self.answers.append(UNKNOWN)
            return
        patch = read_patch(text)
        self.answers += [UNKNOWN] * (not patch.certain or patch.deletes)
        self.answers += map(self._locate, patch.paths)

    def _locate(self, path: str) -> Truth:
        """Return whether the path is inside, whether it is relative to the root or to the folder."""
        answer = self._project.locate(path, recursive=self._recursive)
        return min(answer, UNKNOWN) if ".." in _SEPARATORS.split(path) else answer
