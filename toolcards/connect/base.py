"""What a recipe is: text for people, and functions that plan what to write and what to remove."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2] / "manage.py"
TAG = "toolcards-connect"  # part of everything that a recipe writes

JAVASCRIPT_GUIDE, PYTHON_GUIDE = "docs/connect-javascript.md", "docs/connect-python.md"
CODING_GUIDE = "docs/connect-coding-agents.md"


class Unreadable(Exception):
    """A file that a recipe must edit but cannot parse; it is left unchanged."""


class Unwritable(Exception):
    """A file that cannot be written, or that changed since it was read."""


@dataclass(frozen=True, slots=True)
class Target:
    """What to connect: the server, the key, and one project or (None) the whole account.

    `agent` is the command of the agent that an editor starts, `config` the configuration of an MCP client; only the
    `acp` and the `mcp` recipe use them.
    """

    url: str = "http://127.0.0.1:8000"
    key: str = ""
    project: Path | None = None
    home: Path = field(default_factory=Path.home)
    agent: tuple[str, ...] = ()
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None means no file.

    A file with a `secret` is readable by its owner only. `copy_of` names the file of ours that is copied, which
    shortens the diff to one line. Folders below `prune_root` that become empty are removed.
    """

    path: Path
    before: str | None
    after: str | None
    secret: str = ""
    copy_of: str = ""
    prune_root: Path | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the file would change."""
        return self.before != self.after

    def reverse(self) -> Change:
        """Return the change back."""
        return replace(self, before=self.after, after=self.before)

    def diff(self) -> str:
        """Return the change as a unified diff, with secrets shortened."""
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
        return re.sub(r"tck_[\w-]{4,}", lambda match: f"{match[0][:8]}…", text.replace(self.secret or "\0", "tck_…"))


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a connected program supports: `yes`, `no`, or words for anything between."""

    observe: str = "yes"
    gate: str = "yes"
    edit: str = "no"
    stream: str = "no"


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to copy: its template under `snippets/`, its title, and a note."""

    name: str
    title: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One agent program or library.

    `version` is the tested version, `when_away` what happens while the server is down. `by_project`: it is connected
    per folder, not per account. `paste` holds the texts for people's own code, printed after writing. `transport` is
    how its calls travel, and so how the probe does: `hooks`, `http` or `socket`.
    """

    name: str
    title: str
    version: str
    can: Abilities
    fails: str  # closed or open, or words for anything between
    when_away: str
    notes: tuple[str, ...]
    plan: Callable[[Target], list[Change]]  # what connecting writes
    undo: Callable[[Target], list[Change]]
    read_key: Callable[[Target], str]  # the key that is already written, "" for none
    about: str = "One command: shows what it would write, writes it, and sends a call to check that it is held."
    aliases: tuple[str, ...] = ()
    by_project: bool = False
    paste: tuple[Snippet, ...] = ()
    by_hand: tuple[Snippet, ...] = ()  # other ways, without the command
    guide: str = ""  # the page in docs/ with the details
    transport: str = "http"
    undo_hint: str = "Removes exactly what was written:"
    next_step: str = "Restart it."
    starter: str = ""  # the starter policy that fits it, "" for any
    probe_offline: Callable[[Target], str] | None = None  # its denial with no server running; "" if it does not deny
    find_warning: Callable[[Target], str] | None = None  # a problem on this computer; "" for none

    @property
    def command(self) -> str:
        """Return the shell command that connects the program."""
        return f"toolcards connect {self.name}"

    @property
    def undo_command(self) -> str:
        """Return the shell command that removes what `connect` wrote."""
        return f"{self.command} --undo"


def find_command() -> list[str]:
    """Return the `toolcards` command with its full path.

    It then starts without a virtual environment.
    """
    installed_path = shutil.which("toolcards") or shutil.which("toolcards-client")
    if installed_path:
        return [installed_path]
    return [sys.executable, *([str(CHECKOUT)] if CHECKOUT.exists() else ["-m", "toolcards.client_cli"])]


def read(path: Path) -> str | None:
    """Return the file's text, None if there is no file; raises Unreadable."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error


def read_json(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the file's text and its JSON object.

    Raises Unreadable if it is not one.
    """
    text = read(path)
    if text is None or not text.strip():
        return text, {}
    try:
        value = json.loads(
            text, object_pairs_hook=_refuse_duplicate_keys, parse_float=_parse_finite, parse_constant=_parse_finite
        )
    except ValueError as error:
        raise Unreadable(f"{path} is not valid JSON ({error}). It was not changed. Fix it and try again.") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is not a JSON object. It was not changed.")
    return text, value


def format_json(value: dict[str, Any], like: str | None) -> str:
    """Return the object as JSON text, indented like the text `like`."""
    text = like or ""
    indent = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    plain = json.dumps(value, indent=indent[1] if indent else 2, ensure_ascii=text.isascii() and "\\u" in text)
    plain += "\n" if not text.strip() or text.endswith("\n") else ""
    return plain.replace("\n", "\r\n") if "\r\n" in text else plain  # line ends of Windows


def write_changes(changes: Iterable[Change]) -> None:
    """Write the files that change, each one atomically.

    Raises Unwritable; if a file changed since it was read, nothing is written.
    """
    pending = [change for change in changes if change.is_needed]
    for change in pending:
        if read(change.path) != change.before:
            raise Unwritable(f"{change.path} was changed by another program. Nothing was written. Try again.")
    for change in pending:
        try:
            _write(change)
        except OSError as error:
            for earlier_change in pending[: pending.index(change)]:
                with contextlib.suppress(OSError):
                    _write(earlier_change.reverse())
            raise Unwritable(f"{change.path} cannot be written: {error}. Fix it and try again.") from error


def _write(change: Change) -> None:
    target = change.path.resolve()  # settings are often links into a dotfiles folder
    if change.after is None:
        target.unlink(missing_ok=True)
        _remove_empty_folders(target.parent, change.prune_root)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if change.secret or not target.exists() else target.stat().st_mode & 0o777
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(change.after)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remove_empty_folders(folder: Path, root: Path | None) -> None:
    """Remove empty folders below `root`, and the bytecode cache of our copies."""
    while root is not None and folder != root.resolve() and folder.is_relative_to(root.resolve()):
        entries = list(folder.iterdir())
        if [entry.name for entry in entries] == ["__pycache__"]:
            shutil.rmtree(entries[0], ignore_errors=True)
        elif entries:
            return
        folder.rmdir()
        folder = folder.parent


def _parse_finite(number: str) -> float:
    """Return the number; raises ValueError if it is not finite.

    It would be written as `Infinity`, which is not JSON.
    """
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is too large for a number")
    return value


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has the same key twice")
    return members
