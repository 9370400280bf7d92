"""Adds the client's files, which are in `toolcards/client` at the root of the repository, to both distributions.

The wheel installs them in a folder of their own, `_toolcards_client/toolcards/client`, which a `.pth` file puts at the
end of the import path. So `toolcards` and `toolcards-client` can be installed together and own no file in common: the
server's own client is imported then, and removing either leaves the other whole. `toolcards` has no `__init__.py` here:
it is a namespace, so that a copy of the client next to an agent's code comes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "_toolcards_client"


class ClientFiles(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook; see hatchling's `tool.hatch.build.hooks.custom`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map the client's files to their place in the distribution."""
        root = Path(self.root)
        unpacked = root / "toolcards" / "client"  # in an unpacked sdist
        client = unpacked if unpacked.exists() else root.parents[1] / "toolcards" / "client"
        target = "toolcards/client" if self.target_name == "sdist" else f"{FOLDER}/toolcards/client"
        for path in sorted(client.rglob("*")):
            if path.suffix in {".py", ".toml", ".typed"}:
                build_data["force_include"][str(path)] = f"{target}/{path.relative_to(client).as_posix()}"
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
