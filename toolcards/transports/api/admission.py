"""What the server in front of the application offers in the scope of a request.

A server that limits unknown peers puts a `Line` into the scope, which receives the report that a peer is identified;
without one (Daphne, tests) the report has no effect.
"""

from __future__ import annotations

from typing import Any, Protocol

LINE = "toolcards.line"  # in a scope
# In the extensions of a scope: a function of header lines and body, which writes a whole answer with status 200 and
# returns whether it has done so.
WHOLE_ANSWER = "toolcards.whole_answer"
# In the extensions of a WebSocket's scope: a function without arguments. Once it is called, messages with text have a
# list, `texts`, of all texts that arrived together.
TEXT_BUNDLES = "toolcards.text_bundles"
# In the extensions of a WebSocket's scope: a function of a callback. It sends a ping, and calls back at its pong, when
# the peer has received all that was sent before. A connection that ends first never calls back.
RECEIPTS = "toolcards.receipts"


class Line(Protocol):
    """One connection, as its server keeps it."""

    def admit(self, *, streams: bool) -> None:
        """Mark the peer of this request as identified; safe from any thread."""


def admit(scope: Any, *, streams: bool = False) -> None:
    """Report to the server that the peer is identified.

    `streams`: its body may pause for long while it is open.
    """
    for line in scope.get(LINE, ()) if scope else ():
        line.admit(streams=streams)
