"""Daphne's `runserver`. Daphne as an app would load Twisted at every start; only this command needs it that early."""

from daphne.management.commands.runserver import Command

__all__ = ["Command"]
