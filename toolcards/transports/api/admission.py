"""What the server in front of us knows about a connection, and how it hears that a peer has shown who it is.

A server that bounds unknown peers puts a `Line` into the scope; others (Daphne, tests) put none, and nothing happens.
"""

from __future__ import annotations

from typing import Any, Protocol

LINE = "toolcards.line"  # in a scope


class Line(Protocol):
    """One connection, as its server keeps it."""

    def admit(self, *, streams: bool) -> None:
        """Take note that this request's key or session is good; safe from any thread."""


def admit(scope: Any, *, streams: bool = False) -> None:
    """Tell the server that the peer is known; `streams`: its body may rest for long while it is open."""
    for line in scope.get(LINE, ()) if scope else ():
        line.admit(streams=streams)
