"""Connects agent programs and libraries: shows a diff, writes it, and sends a probe call that is held."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from toolcards import connect
from toolcards.connect import snippets
from toolcards.connect.probe import ProbeFailed, accepts_key, probe, report_offline
from toolcards.models import AgentKey

LIST = "list"
ADDRESS_FILE, DEFAULT_ADDRESS = "address", "http://127.0.0.1:8000"  # `serve` leaves its address in the data directory
SCOPES = ("ingest", "decide", "result", "read")


class Command(BaseCommand):
    """`connect claude-code`, `connect ai-sdk --project shop`, `connect opencode --undo`, `connect list`."""

    help = "Connect an agent program or library to a server, or undo that."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the program's name, and the options."""
        names = [recipe.name for recipe in connect.RECIPES]
        choices = [LIST, *names, *(name for recipe in connect.RECIPES for name in recipe.aliases)]
        parser.add_argument("framework", choices=choices, metavar="framework", help=f"{LIST}, or {', '.join(names)}")
        parser.add_argument("--undo", action="store_true", help="remove exactly what connect wrote")
        parser.add_argument(
            "--url", default=os.environ.get("TOOLCARDS_URL") or find_server_address(), help="the server (%(default)s)"
        )
        parser.add_argument("--key", default="", help="an agent key; made for you on the server's own machine")
        parser.add_argument(
            "--project",
            nargs="?",
            const=".",
            help="the project's folder: for a library's recipe where its files go "
            "(this folder), for a program's that only this project is connected",
        )
        parser.add_argument("--agent", default="", help="acp: the command of the agent that the editor starts")
        parser.add_argument("--yes", action="store_true", help="write without asking")
        parser.add_argument("--dry-run", action="store_true", help="only show the diff")
        parser.add_argument(
            "--no-probe", "--no-wait", dest="no_probe", action="store_true", help="write, and hold no probe call"
        )
        parser.add_argument("--only-probe", action="store_true", help="write nothing, only hold a probe call")
        parser.add_argument("--wait", type=float, default=300.0, help="seconds to wait for the probe's answer (300)")

    def handle(self, *, framework: str, undo: bool, **options: object) -> None:
        """Connect, probe, undo or list."""
        if framework == LIST:
            return self._list()
        recipe = connect.get_recipe(framework)
        folder = str(options["project"] or (Path.cwd() if recipe.by_project else ""))
        if recipe.by_project and Path(folder).resolve() == settings.BASE_DIR:
            raise CommandError(f"{recipe.title} is connected in the folder of your code: set it with --project.")
        project, agent = Path(folder).resolve() if folder else None, tuple(shlex.split(str(options["agent"])))
        target = connect.Target(str(options["url"]).rstrip("/"), str(options["key"]), project, Path.home(), agent)
        act = self._undo if undo else self._only_probe if options["only_probe"] else self._connect
        try:
            act(recipe, target, options)
        except connect.Unreadable as error:
            raise CommandError(str(error)) from error
        except ProbeFailed as failed:
            raise CommandError(str(failed)) from failed

    def _list(self) -> None:
        for recipe in connect.RECIPES:
            mark = "*" if _is_connected(recipe) else " "
            self.stdout.write(f"{mark} {recipe.name:14} {recipe.title}, tested with {recipe.version}")
        self.stdout.write("* = connected, for this account or in this folder")

    # ------------------------------------------------------------ connect

    def _connect(self, recipe: connect.Recipe, target: connect.Target, options: dict[str, object]) -> None:
        target, new_key = self._with_key(recipe, target, options)
        changes = recipe.plan(target)
        if not any(change.is_needed for change in changes):
            self.stdout.write(f"{recipe.title} is connected already: nothing to do.")
        elif not self._confirm(changes, options):
            if new_key is not None:
                new_key.delete()
            return
        else:
            connect.write_changes(changes)
            self._report_written(recipe, target, changes)
        if recipe.find_warning and (warning := recipe.find_warning(target)):
            self.stdout.write(f"Warning: {warning}")
        self._paste(recipe)
        self._probe(recipe, target, options)

    def _only_probe(self, recipe: connect.Recipe, target: connect.Target, options: dict[str, object]) -> None:
        key = target.key or recipe.read_key(target)
        if not key:
            raise CommandError(f"{recipe.title} is not connected here, so pass a key with --key.")
        self._probe(recipe, replace(target, key=key), options)

    def _with_key(
        self, recipe: connect.Recipe, target: connect.Target, options: dict[str, object]
    ) -> tuple[connect.Target, AgentKey | None]:
        """Return the given key, the one written before, or a new one from this machine's server."""
        key, new_key = target.key or recipe.read_key(target), None
        if options["dry_run"]:
            key = key or "tck_made-when-written"
        elif not accepts_key(target.url, key or "-"):
            if target.key:
                raise CommandError("The server does not accept this key. Nothing was written.")
            try:
                new_key, key = AgentKey.objects.issue(recipe.name, SCOPES)
            except DatabaseError as error:
                raise CommandError(
                    "This is not the server's machine: create a key there and pass it with --key."
                ) from error
        return replace(target, key=key), new_key

    def _report_written(self, recipe: connect.Recipe, target: connect.Target, changes: list[connect.Change]) -> None:
        written = [change for change in changes if change.is_needed]
        self.stdout.write(f"Wrote {', '.join(str(change.path) for change in written)}.")
        where = f" --project {shlex.quote(str(target.project))}" if target.project else ""
        self.stdout.write(f"Undo: {command_prefix()} connect {recipe.name} --undo{where}")
        for change in written:
            if change.secret and _is_exposed_to_git(change.path):
                self.stdout.write(f"Warning: git does not ignore {change.path.name}, which contains a key.")

    def _paste(self, recipe: connect.Recipe) -> None:
        """Print the snippets for people's own code."""
        for snippet in recipe.paste:
            shell = snippet.name.startswith("curl_")
            text = (
                snippets.render_shell_snippet(snippet.name)
                if shell
                else snippets.render_snippet(snippet.name, "$TOOLCARDS_URL")
            )
            self.stdout.write(f"\n---- {' '.join(filter(None, (f'{snippet.title}.', snippet.about)))}\n\n{text}")

    def _confirm(self, changes: list[connect.Change], options: dict[str, object]) -> bool:
        for change in changes:
            self.stdout.write(change.diff())
        if options["dry_run"]:
            return False
        if options["yes"]:
            return True
        try:
            answer = input("Write this? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() not in {"y", "yes"}:
            self.stdout.write("Nothing was written.")
            return False
        return True

    def _probe(self, recipe: connect.Recipe, target: connect.Target, options: dict[str, object]) -> None:
        wait = 0.0 if options["no_probe"] else float(str(options["wait"]))
        outcome = probe(
            target.url, target.key, self.stdout.write, agent=recipe.title, wait=wait, transport=recipe.transport
        )
        messages = {
            "sent": "The server accepts this key. No probe call was held (--no-probe).",
            "approved": "The probe was held, approved and released.",
            "denied": "The probe was held, denied and released.",
            "refused": "Policy denied the probe at once: the gate works.",
        }
        self.stdout.write(messages[outcome])
        denial = recipe.probe_offline(target) if wait and recipe.probe_offline else ""
        if denial:
            how = "its settings were read" if recipe.transport == "hooks" else "its code was run"
            report_offline(target.url, target.key, agent=recipe.title, denial=denial, checked=how)
            self.stdout.write(f"Without a server it runs nothing ({how}): {denial}")
        self.stdout.write(f"{recipe.title} is connected. {recipe.next_step}")

    # ------------------------------------------------------------ undo

    def _undo(self, recipe: connect.Recipe, target: connect.Target, options: dict[str, object]) -> None:
        key = recipe.read_key(target)
        changes = recipe.undo(target)
        if not any(change.is_needed for change in changes):
            self.stdout.write(f"{recipe.title} is not connected here: nothing to do.")
            return
        if not self._confirm(changes, options):
            return
        connect.write_changes(changes)
        message = (
            f"{recipe.undo_hint.rpartition(', then')[0]}." if recipe.by_project else "It runs as before; restart it."
        )
        self.stdout.write(f"Removed. {message}")
        try:
            agent_key = AgentKey.objects.find_by_secret(key) if key else None
            if agent_key is not None and agent_key.source.name == recipe.name:
                agent_key.revoked_at = timezone.now()
                agent_key.save(update_fields=["revoked_at"])
        except DatabaseError:
            self.stdout.write("Its key is still valid on the server; revoke it there.")


def find_server_address() -> str:
    """Return the address of the last server started with this data, or the default one."""
    try:
        return (settings.TOOLCARDS.data_dir / ADDRESS_FILE).read_text().strip() or DEFAULT_ADDRESS
    except OSError:
        return DEFAULT_ADDRESS


def command_prefix() -> str:
    """Return how this command was started: `python3 manage.py` or `toolcards`."""
    return "python3 manage.py" if Path(sys.argv[0]).name == "manage.py" else "toolcards"


def _is_exposed_to_git(path: Path) -> bool:
    """Return whether the file is in a working tree that does not ignore it."""
    try:
        command = ["git", "-C", str(path.parent), "check-ignore", "--quiet", path.name]
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 1
    except (OSError, subprocess.SubprocessError):
        return False


def _is_connected(recipe: connect.Recipe) -> bool:
    try:
        return any(change.is_needed for change in recipe.undo(connect.Target()))
    except connect.Unreadable:
        return False
