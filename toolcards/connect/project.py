"""The files of a project: address and key in its environment file, and copies of our client next to its code.

A copy begins with a line that marks it as ours. A file without that line is never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolcards.connect.base import TAG, Change, Target, Unreadable, read
from toolcards.connect.edits import managed_block

CLIENT = Path(__file__).parents[1] / "client"
STATIC_FOLDERS = (  # in the wheel of the client, in that of the server, and in a checkout
    Path(__file__).with_name("_static"),
    Path(__file__).parents[1] / "_site" / "dashboard" / "_static" / "clients",
    Path(__file__).parents[2] / "static" / "clients",
)
COMMENTS = {".py": "#", ".mjs": "//", ".toml": "#"}
URL, KEY = "TOOLCARDS_URL", "TOOLCARDS_AGENT_KEY"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of one recipe: `env` holds address and key, `copies` maps targets to our files.

    `former_copies` are copies under former names: renewed if they exist, since the project's code may import them.
    """

    name: str
    env: str
    copies: Callable[[], dict[str, Path]] = dict
    former_copies: Callable[[], dict[str, Path]] = dict

    def plan(self, target: Target) -> list[Change]:
        """Return the environment file with our lines, and the copies."""
        folder, path = project_folder(target), project_folder(target) / self.env
        text, key = read(path), target.key or self.read_key(target)
        lines = f"{URL}={target.url.rstrip('/')}\n{KEY}={key}"
        former = {name: file for name, file in self.former_copies().items() if (folder / name).exists()}
        copies = [copy_file(folder, name, file) for name, file in sorted((self.copies() | former).items())]
        if text is not None and managed_block.read_block(text, self.name) == lines + "\n":
            return [*copies, Change(path, text, text, secret=key)]
        return [*copies, Change(path, text, managed_block.append_block(text or "", lines, self.name), secret=key)]

    def undo(self, target: Target) -> list[Change]:
        """Remove our lines and copies, and an environment file left empty.

        Copies stay while another recipe is connected in this folder, since it may need them.
        """
        folder, path = project_folder(target), project_folder(target) / self.env
        text = read(path)
        remaining = managed_block.remove_block(text or "", self.name)
        names = sorted(self.copies() | self.former_copies())
        removals = [] if managed_block.has_any_block(remaining) else [remove_copy(folder, name) for name in names]
        return [*removals, Change(path, text, remaining or None if text else text, secret=self.read_key(target))]

    def read_key(self, target: Target) -> str:
        """Return the key in the environment file, "" if it is missing."""
        lines = managed_block.read_block(read(project_folder(target) / self.env) or "", self.name)
        match = re.search(rf"^{KEY}=(.*)$", lines, re.MULTILINE)
        return match[1].strip() if match else ""


def project_folder(target: Target) -> Path:
    """Return the project's folder, by default the current one."""
    return target.project or Path.cwd()


def copy_modules(*names: str) -> Callable[[], dict[str, Path]]:
    """Return a function that maps `toolcards/<name>` to these modules of `static/clients/`."""
    return lambda: {f"toolcards/{name}": find_static_file(name) for name in names}


def copy_sdk() -> dict[str, Path]:
    """Map the Python client's files so that it is imported as `toolcards.client`."""
    files = [*CLIENT.rglob("*.py"), *CLIENT.rglob("*.toml")]
    return {f"toolcards/client/{file.relative_to(CLIENT).as_posix()}": file for file in files}


def find_static_file(name: str) -> Path:
    """Return the path of a file in `static/clients/`; raises Unreadable."""
    for folder in STATIC_FOLDERS:
        if (folder / name).is_file():
            return folder / name
    raise Unreadable(f"{name} is not among the files of this installation.")


def mark(suffix: str) -> str:
    """Return the first line of a copy."""
    return f"{COMMENTS[suffix]} {TAG}: a copy; connecting again renews it, --undo removes it\n"


def copy_file(folder: Path, name: str, file: Path) -> Change:
    """Return our file as a copy in the folder.

    Raises Unreadable if a foreign file is in the way.
    """
    path, after = folder / name, mark(file.suffix) + file.read_text("utf-8")
    before = read(path)
    if path.resolve() == file.resolve() or before == file.read_text("utf-8"):
        return Change(path, before, before)  # the original itself
    if before is not None and not before.startswith(mark(file.suffix)):
        raise Unreadable(f"{path} exists and was not written by Toolcards. It was not changed.")
    return Change(path, before, after, copy_of=file.name, prune_root=folder)


def remove_copy(folder: Path, name: str) -> Change:
    """Return the removal of a copy that we made."""
    path = folder / name
    before = read(path)
    ours = before is not None and before.startswith(mark(path.suffix))
    return Change(path, before, None if ours else before, copy_of=path.name, prune_root=folder)
