"""What a recipe is: facts for people, and two functions that say what would be written, or removed."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2] / "manage.py"
TAG = "toolcards-connect"  # stands in everything that a recipe writes


class Unreadable(Exception):
    """A file that a recipe must edit and cannot; it is left as it is."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to connect: to which server, with which key, for one project or for all of this account's.

    `agent` is the command of the agent that an editor starts, where a recipe wants to know.
    """

    url: str = "http://127.0.0.1:8000"
    key: str = ""
    project: Path | None = None
    home: Path = field(default_factory=Path.home)
    agent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it shall be; None is no file. `secret`: only its owner may read it.

    `copy_of` names the file of ours that is copied: the diff then says so in one line. `within` is the folder up to
    which folders go, too, once they are empty.
    """

    path: Path
    before: str | None
    after: str | None
    secret: str = ""
    copy_of: str = ""
    within: Path | None = None

    @property
    def needed(self) -> bool:
        """Whether anything would change."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff, secrets shortened."""
        before, after = (text or "" for text in (self.before, self.after))
        if self.copy_of and not (self.before and self.after):
            sign, lines_of = ("+", after) if self.after else ("-", before)
            return f"{sign * 3} {self.path}\n{sign} a copy of {self.copy_of}, {len(lines_of.splitlines())} lines\n"
        lines = difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True),
            str(self.path) if self.before is not None else "/dev/null",
            str(self.path) if self.after is not None else "/dev/null",
        )  # fmt: skip
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        return re.sub(r"tck_[\w-]{4,}", lambda found: f"{found[0][:8]}…", text.replace(self.secret or "\0", "tck_…"))


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a connected program lets us do: `yes`, `no`, or in words what is between."""

    observe: str = "yes"
    gate: str = "yes"
    edit: str = "no"
    stream: str = "no"


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to copy: its template under `connect/snippets/`, its title, and what to know about it."""

    name: str
    title: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One agent program or library. `version` is what this was tested with, `when_away` what happens without a server.

    `place` orders the connect page, `also` are further names. `by_project`: it is connected folder by folder, not for
    the account. `paste` are the texts that people put into their own code, printed after writing. `road` is the way
    that its calls go, which the probe takes too: `hooks`, `http` or `socket`.
    """

    name: str
    title: str
    version: str
    can: Abilities
    fails: str  # closed or open, or in words what is between
    when_away: str
    notes: tuple[str, ...]
    plan: Callable[[Wish], list[Change]]
    undo: Callable[[Wish], list[Change]]
    key_in: Callable[[Wish], str]  # the key that is written there already, "" for none
    about: str = "One command: shows what it would write, writes it, and sends a call to try whether it is held."
    place: int = 0
    also: tuple[str, ...] = ()
    by_project: bool = False
    paste: tuple[Snippet, ...] = ()
    by_hand: tuple[Snippet, ...] = ()  # for who wants no command, and more
    guide: str = ""  # the page of docs/ that tells the rest
    road: str = "http"
    undoing: str = "Removes exactly what was written:"
    next_step: str = "Start it anew."
    away: Callable[[Wish], str] | None = None  # what was seen of it with no server there; "" for nothing
    mind: Callable[[Wish], str] | None = None  # what people should know of this computer; "" for nothing

    @property
    def command(self) -> str:
        """What people type."""
        return f"toolcards connect {self.name}"

    @property
    def undo_command(self) -> str:
        """What people type to take it back."""
        return f"{self.command} --undo"


def program() -> list[str]:
    """Return the command of Toolcards itself, with its path: what starts it may know no virtual environment."""
    found = shutil.which("toolcards")
    ours = [str(CHECKOUT)] if CHECKOUT.exists() else ["-m", "toolcards"]
    return [found] if found else [sys.executable, *ours]


def read(path: Path) -> str | None:
    """Return the file's text, None if there is none; raises Unreadable."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error


def read_json(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the file's text and its object; raises Unreadable for what is no JSON object."""
    text = read(path)
    if text is None or not text.strip():
        return text, {}
    try:
        said = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise Unreadable(f"{path} is not valid JSON ({error}). It was not touched; mend it and try again.") from error
    if not isinstance(said, dict):
        raise Unreadable(f"{path} is not a JSON object. It was not touched.")
    return text, said


def as_json(said: dict[str, Any], like: str | None) -> str:
    """Return the object as text, laid out as the text `like`."""
    text = like or ""
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    plain = json.dumps(said, indent=found[1] if found else 2, ensure_ascii=text.isascii() and "\\u" in text)
    return plain + ("\n" if not text.strip() or text.endswith("\n") else "")


def write(changes: Iterable[Change]) -> None:
    """Write what differs, each file at once or not at all."""
    for change in changes:
        if not change.needed:
            continue
        target = change.path.resolve()  # settings are often links into somebody's dotfiles
        if change.after is None:
            target.unlink(missing_ok=True)
            _tidy(target.parent, change.within)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if change.secret or not target.exists() else target.stat().st_mode & 0o777
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(change.after)
        Path(name).chmod(mode)
        Path(name).replace(target)


def _tidy(folder: Path, within: Path | None) -> None:
    """Remove folders that are empty now, up to `within`; what Python made of our copies goes with them."""
    while within is not None and folder != within.resolve() and folder.is_relative_to(within.resolve()):
        left = list(folder.iterdir())
        if [entry.name for entry in left] == ["__pycache__"]:
            shutil.rmtree(left[0], ignore_errors=True)
        elif left:
            return
        folder.rmdir()
        folder = folder.parent


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return said
