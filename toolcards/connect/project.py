"""What most recipes write: address and key into a project's environment file, and copies of our files beside the code.

A copy begins with a line that says that it is one; a file without that line is somebody else's and is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolcards.connect import managed_block
from toolcards.connect.base import TAG, Change, Unreadable, Wish, read

CLIENT = Path(__file__).parents[1] / "client"
COMMENTS = {".py": "#", ".mjs": "//", ".toml": "#"}
URL, KEY = "TOOLCARDS_URL", "TOOLCARDS_AGENT_KEY"


@dataclass(frozen=True, slots=True)
class Project:
    """The files of one recipe: `env` holds address and key, `copies` gives where copies go -> our files."""

    name: str
    env: str
    copies: Callable[[], dict[str, Path]] = dict

    def plan(self, wish: Wish) -> list[Change]:
        """Return the environment file with our lines at its end, and the copies."""
        folder, path = folder_of(wish), folder_of(wish) / self.env
        text, key = read(path), wish.key or self.key_in(wish)
        lines = f"{URL}={wish.url.rstrip('/')}\n{KEY}={key}"
        found = [copied(folder, name, file) for name, file in sorted(self.copies().items())]
        if text is not None and managed_block.within(text, self.name) == lines + "\n":
            return [*found, Change(path, text, text, secret=key)]
        return [*found, Change(path, text, managed_block.appended(text or "", lines, self.name), secret=key)]

    def undo(self, wish: Wish) -> list[Change]:
        """Return the environment file without our lines, and no copies; an empty file that is left goes.

        Copies stay while another recipe is connected here that may need them.
        """
        folder, path = folder_of(wish), folder_of(wish) / self.env
        text = read(path)
        left = managed_block.without(text or "", self.name)
        gone = [] if managed_block.others(left) else [removed(folder, name) for name in sorted(self.copies())]
        return [*gone, Change(path, text, left or None if text else text, secret=self.key_in(wish))]

    def key_in(self, wish: Wish) -> str:
        """Return the key that is written there."""
        lines = managed_block.within(read(folder_of(wish) / self.env) or "", self.name)
        found = re.search(rf"^{KEY}=(.*)$", lines, re.MULTILINE)
        return found[1].strip() if found else ""


def folder_of(wish: Wish) -> Path:
    """Return the project's folder: the one we are in, unless another was named."""
    return wish.project or Path.cwd()


def modules(*names: str) -> Callable[[], dict[str, Path]]:
    """Return what copies these modules of `static/clients/` into a folder `toolcards`."""
    return lambda: {f"toolcards/{name}": served(name) for name in names}


def sdk() -> dict[str, Path]:
    """Return what copies the Python client, so that it is imported as `toolcards.client`."""
    files = [*CLIENT.rglob("*.py"), *CLIENT.rglob("*.toml")]
    return {f"toolcards/client/{file.relative_to(CLIENT).as_posix()}": file for file in files}


def served(name: str) -> Path:
    """Return a file that agents' programs copy from us."""
    from django.contrib.staticfiles import finders

    found = finders.find(f"clients/{name}")
    if not found:
        raise Unreadable(f"{name} is not among the static files of this installation.")
    return Path(found)


def mark(suffix: str) -> str:
    """Return the line that a copy begins with."""
    return f"{COMMENTS[suffix]} {TAG}: a copy; connecting again renews it, --undo removes it\n"


def copied(folder: Path, name: str, file: Path) -> Change:
    """Return our file as a copy in the folder; raises Unreadable where somebody else's is in the way."""
    path, after = folder / name, mark(file.suffix) + file.read_text("utf-8")
    before = read(path)
    if path.resolve() == file.resolve() or before == file.read_text("utf-8"):
        return Change(path, before, before)  # it is there without us
    if before is not None and not before.startswith(mark(file.suffix)):
        raise Unreadable(f"{path} is there and is not ours. It was not touched.")
    return Change(path, before, after, copy_of=file.name, within=folder)


def removed(folder: Path, name: str) -> Change:
    """Return the copy as no file, if it is ours."""
    path = folder / name
    before = read(path)
    ours = before is not None and before.startswith(mark(path.suffix))
    return Change(path, before, None if ours else before, copy_of=path.name, within=folder)
