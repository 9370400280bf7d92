"""Django's development server is Daphne's, which knows sockets."""

from __future__ import annotations

from daphne.server import Server
from django.core.management import get_commands, load_command_class


def test_runserver_is_daphnes() -> None:
    command = load_command_class(get_commands()["runserver"], "runserver")
    assert command.server_cls is Server
