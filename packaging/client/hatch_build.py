"""Adds the client's files, which are in `toolcards/` at the root of the repository, to both distributions.

The wheel installs them in a folder of their own, `_toolcards_client/toolcards`, which a `.pth` file puts at the end of
the import path. So `toolcards` and `toolcards-client` can be installed together and own no file in common: the server's
own client is imported then, and removing either leaves the other whole. `toolcards` has no `__init__.py` here: it is a
namespace, so that a copy of the client next to an agent's code comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "_toolcards_client"
PARTS = (
    "client",
    "connect",
    "acp",
    "mcp",
    "hook_relay",
    "terminal",
    "client_cli.py",
)  # of `toolcards/`: what needs no server
SUFFIXES = {".py", ".toml", ".typed", ".txt"}


class ClientFiles(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook; see hatchling's `tool.hatch.build.hooks.custom`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map the client's files to their places in the distribution."""
        root = Path(self.root)
        source = root if (root / "toolcards").exists() else root.parents[1]  # an unpacked sdist, or the repository
        for path in _list_files(source):
            name = path.relative_to(source).as_posix()
            if self.target_name == "wheel":
                name = f"{FOLDER}/{name.replace('static/clients/', 'toolcards/connect/_static/')}"
            build_data["force_include"][str(path)] = name
        if self.target_name == "wheel":
            build_data["force_include"][str(self._write_path_file())] = "toolcards-client.pth"

    def _write_path_file(self) -> Path:
        path = Path(self.directory) / "toolcards-client.pth"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{FOLDER}\n")
        return path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the path file: it is inside the wheel."""
        (Path(self.directory) / "toolcards-client.pth").unlink(missing_ok=True)


def _list_files(source: Path) -> Iterator[Path]:
    for part in PARTS:
        path = source / "toolcards" / part
        yield from [path] if path.is_file() else (file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES)
    yield from sorted((source / "static" / "clients").glob("*.*js"))
