"""`toolcards approvals`: a person answers waiting calls in a terminal, with a personal token. Needs no Django."""

from toolcards.terminal.command import main

__all__ = ["main"]
