"""Connects agent programs and libraries: shows a diff, writes, and ends when a probe call was held and released."""

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
from toolcards.connect.probe import Failed, probe, takes, tell_away
from toolcards.models import AgentKey

LIST = "list"
ADDRESS, USUAL = "address", "http://127.0.0.1:8000"  # `serve` leaves its address in the data directory
SCOPES = ("ingest", "decide", "result", "read")


class Command(BaseCommand):
    """`connect claude-code`, `connect ai-sdk --project shop`, `connect opencode --undo`, `connect list`."""

    help = "Connect an agent program, or the code of one, to a server, or take that back."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the program's name, and how to go about it."""
        names = [recipe.name for recipe in connect.recipes()]
        known = [LIST, *names, *(name for recipe in connect.recipes() for name in recipe.also)]
        parser.add_argument("framework", choices=known, metavar="framework", help=f"{LIST}, or {', '.join(names)}")
        parser.add_argument("--undo", action="store_true", help="remove exactly what connect wrote")
        parser.add_argument("--url", default=os.environ.get("TOOLCARDS_URL") or here(), help="the server (%(default)s)")
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
        """Do as asked."""
        if framework == LIST:
            return self._list()
        recipe = connect.recipe(framework)
        named = str(options["project"] or (Path.cwd() if recipe.by_project else ""))
        if recipe.by_project and Path(named).resolve() == settings.BASE_DIR:
            raise CommandError(f"{recipe.title} is connected in the folder of your code: name it with --project.")
        project, agent = Path(named).resolve() if named else None, tuple(shlex.split(str(options["agent"])))
        wish = connect.Wish(str(options["url"]).rstrip("/"), str(options["key"]), project, Path.home(), agent)
        act = self._undo if undo else self._only_probe if options["only_probe"] else self._connect
        try:
            act(recipe, wish, options)
        except connect.Unreadable as error:
            raise CommandError(str(error)) from error
        except Failed as failed:
            raise CommandError(str(failed)) from failed

    def _list(self) -> None:
        for recipe in connect.recipes():
            mark = "*" if _written(recipe) else " "
            self.stdout.write(f"{mark} {recipe.name:14} {recipe.title}, tested with {recipe.version}")
        self.stdout.write("* is connected: for this account, or in this folder.")

    # ------------------------------------------------------------ connect

    def _connect(self, recipe: connect.Recipe, wish: connect.Wish, options: dict[str, object]) -> None:
        wish, made = self._with_key(recipe, wish, options)
        changes = recipe.plan(wish)
        if not any(change.needed for change in changes):
            self.stdout.write(f"{recipe.title} is connected already: nothing to do.")
        elif not self._agreed(changes, options):
            if made is not None:
                made.delete()
            return  # nobody wants it: there is nothing to prove
        else:
            connect.write(changes)
            self._wrote(recipe, wish, changes)
        if recipe.mind and (said := recipe.mind(wish)):
            self.stdout.write(f"Mind: {said}")
        self._paste(recipe)
        self._probe(recipe, wish, options)

    def _only_probe(self, recipe: connect.Recipe, wish: connect.Wish, options: dict[str, object]) -> None:
        key = wish.key or recipe.key_in(wish)
        if not key:
            raise CommandError(f"{recipe.title} is not connected here, so a key must be given with --key.")
        self._probe(recipe, replace(wish, key=key), options)

    def _with_key(
        self, recipe: connect.Recipe, wish: connect.Wish, options: dict[str, object]
    ) -> tuple[connect.Wish, AgentKey | None]:
        """The key given, or the one written before, or a new one of this machine's own server."""
        key, made = wish.key or recipe.key_in(wish), None
        if options["dry_run"]:
            key = key or "tck_made-when-written"
        elif not takes(wish.url, key or "-"):
            if wish.key:
                raise CommandError("The server does not take this key. Nothing was written.")
            try:
                made, key = AgentKey.objects.issue(recipe.name, SCOPES)
            except DatabaseError as error:
                raise CommandError(
                    "This is not the server's machine: make a key there and give it with --key."
                ) from error
        return replace(wish, key=key), made

    def _wrote(self, recipe: connect.Recipe, wish: connect.Wish, changes: list[connect.Change]) -> None:
        written = [change for change in changes if change.needed]
        self.stdout.write(f"Wrote {', '.join(str(change.path) for change in written)}.")
        where = f" --project {shlex.quote(str(wish.project))}" if wish.project else ""
        self.stdout.write(f"Undo: {typed()} connect {recipe.name} --undo{where}")
        for change in written:
            if change.secret and _git_would_take(change.path):
                self.stdout.write(f"Mind: git does not ignore {change.path.name}, and a key is in it.")

    def _paste(self, recipe: connect.Recipe) -> None:
        """Print what people put into their own code; the command cannot do that for them."""
        for snippet in recipe.paste:
            shell = snippet.name.startswith("curl_")
            said = snippets.shell(snippet.name) if shell else snippets.text(snippet.name, "$TOOLCARDS_URL")
            self.stdout.write(f"\n---- {' '.join(filter(None, (f'{snippet.title}.', snippet.about)))}\n\n{said}")

    def _agreed(self, changes: list[connect.Change], options: dict[str, object]) -> bool:
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

    def _probe(self, recipe: connect.Recipe, wish: connect.Wish, options: dict[str, object]) -> None:
        wait = 0.0 if options["no_probe"] else float(str(options["wait"]))
        ended = probe(wish.url, wish.key, self.stdout.write, agent=recipe.title, wait=wait, road=recipe.road)
        told = {
            "sent": "The server takes this key. No probe call was held (--no-probe).",
            "approved": "The probe was held, approved and released.",
            "denied": "The probe was held, denied and released.",
            "refused": "Policy refused the probe at once: the gate works, and lets nothing through.",
        }
        self.stdout.write(told[ended])
        seen = recipe.away(wish) if wait and recipe.away else ""
        if seen:
            how = "its settings were read" if recipe.road == "hooks" else "its code was run"
            tell_away(wish.url, wish.key, agent=recipe.title, seen=seen, checked=how)
            self.stdout.write(f"Without a server it runs nothing ({how}): {seen}")
        self.stdout.write(f"{recipe.title} is connected. {recipe.next_step}")

    # ------------------------------------------------------------ undo

    def _undo(self, recipe: connect.Recipe, wish: connect.Wish, options: dict[str, object]) -> None:
        key = recipe.key_in(wish)
        changes = recipe.undo(wish)
        if not any(change.needed for change in changes):
            self.stdout.write(f"{recipe.title} is not connected here: nothing to do.")
            return
        if not self._agreed(changes, options):
            return
        connect.write(changes)
        told = (
            f"{recipe.undoing.rpartition(', then')[0]}." if recipe.by_project else "It runs as before; start it anew."
        )
        self.stdout.write(f"Removed. {told}")
        try:
            ours = AgentKey.objects.of(key) if key else None
            if ours is not None and ours.source.name == recipe.name:
                ours.revoked_at = timezone.now()
                ours.save(update_fields=["revoked_at"])
        except DatabaseError:
            self.stdout.write("Its key lives on at the server; revoke it there.")


def here() -> str:
    """Return the address of the server that was started last with this data, or the usual one."""
    try:
        return (settings.TOOLCARDS.data_dir / ADDRESS).read_text().strip() or USUAL
    except OSError:
        return USUAL


def typed() -> str:
    """Return what people type before the name of a command, as it was typed this time."""
    return "python3 manage.py" if Path(sys.argv[0]).name == "manage.py" else "toolcards"


def _git_would_take(path: Path) -> bool:
    """Whether the file lies in a working tree and nothing there ignores it."""
    try:
        asked = ["git", "-C", str(path.parent), "check-ignore", "--quiet", path.name]
        return subprocess.run(asked, capture_output=True, timeout=10).returncode == 1
    except (OSError, subprocess.SubprocessError):
        return False


def _written(recipe: connect.Recipe) -> bool:
    try:
        return any(change.needed for change in recipe.undo(connect.Wish()))
    except connect.Unreadable:
        return False
