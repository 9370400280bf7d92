"""The `connect` command: shows a diff, writes it, and sends a probe call that is held.

It needs no Django. On the server's own computer the management command passes its `KeyStore`, which makes keys; with
`toolcards-client`, on another computer, the key comes from the server's pages.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from toolcards import connect
from toolcards.connect import snippet_text
from toolcards.connect.base import CHECKOUT, Change, Target
from toolcards.connect.probe import ProbeFailed, ProbeUnanswered, accepts_key, probe, report_offline

LIST = "list"
DEFAULT_ADDRESS = "http://127.0.0.1:8000"
SCOPES = ("ingest", "decide", "result", "read")
ABOUT = "Connect an agent program or library to a server, or undo that."
NO_KEYS = "This computer does not run the server. Create a key on the server and pass it with --key."
OUTCOMES = {
    "sent": "The server accepts this key. No probe call was held (--no-probe).",
    "approved": "The probe was held, approved and released.",
    "denied": "The probe was held, denied and released.",
    "refused": "Policy denied the probe at once: the gate works.",
}


class ConnectFailed(Exception):
    """A program cannot be connected; the message gives a remedy."""


class KeyStore(Protocol):
    """Makes and revokes agent keys."""

    def issue(self, name: str) -> str:
        """Return a new key; raises ConnectFailed."""

    def discard(self, key: str) -> None:
        """Remove a key that was not used."""

    def revoke(self, key: str, name: str) -> None:
        """Revoke the key if it belongs to the source of this name.

        Raises ConnectFailed.
        """


class NoKeyStore:
    """The keys of a computer that is not the server's: none can be made."""

    def issue(self, name: str) -> str:
        """Raise ConnectFailed."""
        raise ConnectFailed(NO_KEYS)

    def discard(self, key: str) -> None:
        """Do nothing: no key was made."""

    def revoke(self, key: str, name: str) -> None:
        """Raise ConnectFailed."""
        raise ConnectFailed("Its key is still valid on the server; revoke it there.")


def add_arguments(parser: argparse.ArgumentParser, default_url: str) -> None:
    """Add the program's name and the options."""
    names = [recipe.name for recipe in connect.RECIPES]
    choices = [LIST, *names, *(name for recipe in connect.RECIPES for name in recipe.aliases)]
    parser.add_argument("framework", choices=choices, metavar="framework", help=f"{LIST}, or {', '.join(names)}")
    parser.add_argument("--undo", action="store_true", help="remove exactly what connect wrote")
    parser.add_argument(
        "--url", default=os.environ.get("TOOLCARDS_URL") or default_url, help="the server (default: %(default)s)"
    )
    parser.add_argument("--key", default="", help="an agent key; created automatically on the server's own computer")
    parser.add_argument(
        "--project",
        nargs="?",
        const=".",
        help="the project's folder. For a library: where its files go "
        "(default: this folder). For a program: connect only this project",
    )
    parser.add_argument("--agent", default="", help="acp: the command of the agent that the editor starts")
    parser.add_argument("--config", default="", help="mcp: the configuration of the MCP client, a JSON file")
    parser.add_argument("--yes", action="store_true", help="write without confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show the diff")
    parser.add_argument(
        "--no-probe", "--no-wait", dest="no_probe", action="store_true", help="write, but send no probe call"
    )
    parser.add_argument("--only-probe", action="store_true", help="write nothing, only send a probe call")
    parser.add_argument(
        "--wait", type=parse_seconds, default=300.0, help="seconds to wait for the probe's answer (default: 300)"
    )


def run_connect(options: argparse.Namespace, keys: KeyStore, write: Callable[[str], None]) -> None:
    """Connect, probe, undo or list; raises ConnectFailed."""
    if options.framework == LIST:
        return _list_recipes(write)
    recipe = connect.get_recipe(options.framework)
    folder = str(options.project or (Path.cwd() if recipe.by_project else ""))
    if recipe.by_project and CHECKOUT.exists() and Path(folder).resolve() == CHECKOUT.parent:
        raise ConnectFailed(f"{recipe.title} is connected in the folder of your code. Name that folder with --project.")
    project, agent = Path(folder).resolve() if folder else None, _split_command(options.agent)
    config = Path(options.config).resolve() if options.config else None
    target = connect.Target(options.url.rstrip("/"), options.key, project, Path.home(), agent, config)
    command = _Command(recipe, options, keys, write)
    act = command.undo if options.undo else command.probe_only if options.only_probe else command.connect_program
    try:
        act(target)
    except (connect.Unreadable, connect.Unwritable, ProbeFailed) as error:
        raise ConnectFailed(str(error)) from error


def parse_seconds(text: str) -> float:
    """Return the number of seconds.

    Raises ValueError unless it is finite and not negative.
    """
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(text)
    return seconds


def _split_command(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConnectFailed(f"--agent {text!r} is not a command: {error}.") from error


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the command."""

    recipe: connect.Recipe
    options: argparse.Namespace
    keys: KeyStore
    write: Callable[[str], None]

    def connect_program(self, target: Target) -> None:
        target, new_key = self._with_key(target)
        try:
            changes = self._write_files(target)
        except BaseException:
            self._discard(new_key)
            raise
        if changes is None:
            self._discard(new_key)
            return
        if self.recipe.find_warning and (warning := self.recipe.find_warning(target)):
            self.write(f"Warning: {warning}")
        self._print_snippets()
        try:
            self._probe(target)
        except ProbeUnanswered:
            raise  # the connection works
        except ProbeFailed:
            connect.write_changes([change.reverse() for change in changes])
            self._discard(new_key)
            self.write("What was written is removed again, since the connection does not work.")
            raise

    def _write_files(self, target: Target) -> list[Change] | None:
        """Write the files after confirmation; return the changes, None if they are refused."""
        changes = self.recipe.plan(target)
        if not any(change.is_needed for change in changes):
            self.write(f"{self.recipe.title} is already connected. Nothing to do.")
            return []
        if not self._confirm(changes):
            return None
        connect.write_changes(changes)
        self._report_written(target, changes)
        return changes

    def _discard(self, new_key: str) -> None:
        if new_key:
            self.keys.discard(new_key)

    def probe_only(self, target: Target) -> None:
        key = target.key or self.recipe.read_key(target)
        if not key:
            raise ConnectFailed(f"{self.recipe.title} is not connected here, so pass a key with --key.")
        self._probe(replace(target, key=key))

    def undo(self, target: Target) -> None:
        key = self.recipe.read_key(target)
        changes = self.recipe.undo(target)
        if not any(change.is_needed for change in changes):
            self.write(f"{self.recipe.title} is not connected here. Nothing to do.")
            return
        if not self._confirm(changes):
            return
        connect.write_changes(changes)
        hint = f"{self.recipe.undo_hint.rpartition(', then')[0]}." if self.recipe.by_project else ""
        self.write(f"Removed. {hint or 'It runs as before; restart it.'}")
        try:
            if key:
                self.keys.revoke(key, self.recipe.name)
        except ConnectFailed as error:
            self.write(str(error))

    def _with_key(self, target: Target) -> tuple[Target, str]:
        """Return the target with its key, and the key if it was made now."""
        key, new_key = target.key or self.recipe.read_key(target), ""
        if self.options.dry_run:
            key = key or "tck_made-when-written"
        elif not accepts_key(target.url, key or "-"):
            if target.key:
                raise ConnectFailed("The server does not accept this key. Nothing was written.")
            key = new_key = self.keys.issue(self.recipe.name)
        return replace(target, key=key), new_key

    def _report_written(self, target: Target, changes: list[Change]) -> None:
        changed_files = [change for change in changes if change.is_needed]
        self.write(f"Wrote {', '.join(str(change.path) for change in changed_files)}.")
        where = f" --project {shlex.quote(str(target.project))}" if target.project else ""
        where += f" --config {shlex.quote(str(target.config))}" if target.config else ""
        self.write(f"Undo: {get_program()} connect {self.recipe.name} --undo{where}")
        for change in changed_files:
            if change.secret and _is_exposed_to_git(change.path):
                self.write(f"Warning: git does not ignore {change.path.name}, which contains a key.")

    def _print_snippets(self) -> None:
        """Print the snippets for people's own code."""
        for snippet in self.recipe.paste:
            if snippet.name.startswith("curl_"):
                text = snippet_text.render_shell_snippet(snippet.name)
            else:
                text = snippet_text.render_snippet(snippet.name, "$TOOLCARDS_URL")
            self.write(f"\n---- {' '.join(filter(None, (f'{snippet.title}.', snippet.about)))}\n\n{text}")

    def _confirm(self, changes: list[Change]) -> bool:
        for change in changes:
            self.write(change.diff())
        if self.options.dry_run:
            return False
        if self.options.yes:
            return True
        try:
            answer = input("Write this? [y/N] ")
        except (EOFError, KeyboardInterrupt):
            answer = ""
        if answer.strip().lower() not in {"y", "yes"}:
            self.write("Nothing was written.")
            return False
        return True

    def _probe(self, target: Target) -> None:
        recipe, wait = self.recipe, 0.0 if self.options.no_probe else self.options.wait
        outcome = probe(target.url, target.key, self.write, agent=recipe.title, wait=wait, transport=recipe.transport)
        self.write(OUTCOMES[outcome])
        denial = recipe.probe_offline(target) if wait and recipe.probe_offline else ""
        if denial:
            how = "its settings were read" if recipe.transport == "hooks" else "its code was run"
            report_offline(target.url, target.key, agent=recipe.title, denial=denial, method=how)
            self.write(f"Without a server it runs nothing ({how}): {denial}")
        self.write(f"{recipe.title} is connected. {recipe.next_step}")
        if recipe.starter:
            self.write(f"It reviews its own calls: the starter policy “{recipe.starter}” fits it (Policy, Draft).")


def get_program() -> str:
    """Return how this command was started: `python3 manage.py`, `toolcards` or `toolcards-client`."""
    name = Path(sys.argv[0]).name
    return "python3 manage.py" if name == "manage.py" else name if name == "toolcards-client" else "toolcards"


def _list_recipes(write: Callable[[str], None]) -> None:
    for recipe in connect.RECIPES:
        mark = "*" if _is_connected(recipe) else " "
        write(f"{mark} {recipe.name:14} {recipe.title}, tested with {recipe.version}")
    write("* = connected, for this account or in this folder")


def _is_exposed_to_git(path: Path) -> bool:
    """Return whether the file is in a working tree that does not ignore it."""
    try:
        command = ["git", "-C", str(path.parent), "check-ignore", "--quiet", path.name]
        process = subprocess.run(command, capture_output=True, timeout=10)  # noqa: S603 - git, with our own words
        return process.returncode == 1
    except (OSError, subprocess.SubprocessError):
        return False


def _is_connected(recipe: connect.Recipe) -> bool:
    try:
        return any(change.is_needed for change in recipe.undo(Target()))
    except connect.Unreadable:
        return False
