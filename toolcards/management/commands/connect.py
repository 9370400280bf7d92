"""Connects agent programs on this computer: shows a diff, writes, and ends when a probe call was held and released."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from toolcards import connect
from toolcards.connect.probe import Failed, probe, takes
from toolcards.models import AgentKey

LIST = "list"
SCOPES = ("ingest", "decide", "result", "read")


class Command(BaseCommand):
    """`connect claude-code`, `connect opencode --undo`, `connect list`."""

    help = "Connect an agent program on this computer to a server, or take that back."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the program's name, and how to go about it."""
        names = [LIST, *(recipe.name for recipe in connect.recipes())]
        parser.add_argument("framework", choices=names, metavar="framework", help=f"one of: {', '.join(names)}")
        parser.add_argument("--undo", action="store_true", help="remove exactly what connect wrote")
        parser.add_argument(
            "--url", default=os.environ.get("TOOLCARDS_URL") or "http://127.0.0.1:8000", help="the server"
        )
        parser.add_argument("--key", default="", help="an agent key; made for you on the server's own machine")
        parser.add_argument(
            "--project", nargs="?", const=".", help="only for this project's folder, not for the account"
        )
        parser.add_argument("--yes", action="store_true", help="write without asking")
        parser.add_argument("--dry-run", action="store_true", help="only show the diff")
        parser.add_argument("--no-wait", action="store_true", help="do not wait for anybody to answer the probe")
        parser.add_argument("--wait", type=float, default=300.0, help="seconds to wait for the probe's answer (300)")

    def handle(self, *, framework: str, undo: bool, **options: object) -> None:
        """Do as asked."""
        if framework == LIST:
            return self._list()
        recipe = connect.recipe(framework)
        project = Path(str(options["project"])).resolve() if options["project"] else None
        wish = connect.Wish(str(options["url"]).rstrip("/"), str(options["key"]), project, Path.home())
        try:
            self._undo(recipe, wish, options) if undo else self._connect(recipe, wish, options)
        except connect.Unreadable as error:
            raise CommandError(str(error)) from error
        except Failed as failed:
            raise CommandError(str(failed)) from failed

    def _list(self) -> None:
        for recipe in connect.recipes():
            mark = "*" if _written(recipe) else " "
            self.stdout.write(f"{mark} {recipe.name:12} {recipe.title} {recipe.version}; fails {recipe.fails}")
        self.stdout.write("* is connected for this account.")

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
            self.stdout.write(f"Wrote {', '.join(str(change.path) for change in changes)}. Undo: {recipe.undo_command}")
        self._probe(recipe, wish.key, wish.url, options)

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
        return connect.Wish(wish.url, key, wish.project, wish.home), made

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

    def _probe(self, recipe: connect.Recipe, key: str, url: str, options: dict[str, object]) -> None:
        wait = 0.0 if options["no_wait"] else float(str(options["wait"]))
        ended = probe(url, key, self.stdout.write, agent=recipe.title, wait=wait)
        told = {
            "sent": "The server takes this key. The probe was not held (--no-wait).",
            "approved": "The probe was held, approved and released.",
            "denied": "The probe was held, denied and released.",
            "refused": "Policy refused the probe at once: the gate works, and lets nothing through.",
        }
        self.stdout.write(f"{told[ended]} {recipe.title} is connected; start it anew.")

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
        self.stdout.write(f"Removed. {recipe.title} runs as before; start it anew.")
        try:
            ours = AgentKey.objects.of(key) if key else None
            if ours is not None and ours.source.name == recipe.name:
                ours.revoked_at = timezone.now()
                ours.save(update_fields=["revoked_at"])
        except DatabaseError:
            self.stdout.write("Its key lives on at the server; revoke it there.")


def _written(recipe: connect.Recipe) -> bool:
    try:
        return any(change.needed for change in recipe.undo(connect.Wish()))
    except connect.Unreadable:
        return False
