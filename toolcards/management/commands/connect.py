"""Connects agent programs and libraries: shows a diff, writes it, and sends a probe call that is held."""

from __future__ import annotations

import argparse

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from toolcards.connect import command
from toolcards.connect.command import DEFAULT_ADDRESS, SCOPES, ConnectFailed
from toolcards.models import AgentKey

ADDRESS_FILE = "address"  # `serve` leaves its address in the data directory


class Command(BaseCommand):
    """`connect claude-code`, `connect ai-sdk --project shop`, `connect opencode --undo`, `connect list`."""

    help = command.ABOUT

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the program's name and the options."""
        command.add_arguments(parser, find_server_address())

    def handle(self, *args: object, **options: object) -> None:
        """Connect, probe, undo or list."""
        try:
            command.run_connect(argparse.Namespace(**options), DatabaseKeys(), self._write)
        except ConnectFailed as error:
            raise CommandError(str(error)) from error

    def _write(self, text: str) -> None:
        self.stdout.write(text)


class DatabaseKeys:
    """The agent keys in this computer's database."""

    def issue(self, name: str) -> str:
        """Return a new key; raises ConnectFailed without a database."""
        try:
            return AgentKey.objects.issue(name, SCOPES)[1]
        except DatabaseError as error:
            raise ConnectFailed(command.NO_KEYS) from error

    def discard(self, key: str) -> None:
        """Delete a key that was not used."""
        agent_key = AgentKey.objects.find_by_secret(key)
        if agent_key is not None:
            agent_key.delete()

    def revoke(self, key: str, name: str) -> None:
        """Revoke the key of the named source; raises ConnectFailed."""
        try:
            agent_key = AgentKey.objects.find_by_secret(key)
            if agent_key is not None and agent_key.source.name == name:
                agent_key.revoked_at = timezone.now()
                agent_key.save(update_fields=["revoked_at"])
        except DatabaseError as error:
            raise ConnectFailed("Its key is still valid on the server; revoke it there.") from error


def find_server_address() -> str:
    """Return the address of the last server, or the default."""
    try:
        return (settings.TOOLCARDS.data_dir / ADDRESS_FILE).read_text().strip() or DEFAULT_ADDRESS
    except (OSError, UnicodeDecodeError):
        return DEFAULT_ADDRESS
