"""Daphne's `runserver`. Only this command loads Daphne as an app, because that loads Twisted at the start."""

from daphne.management.commands.runserver import Command

__all__ = ["Command"]
