"""Who may watch: checked when a socket opens and every few seconds, because sockets outlive a sign-out."""

from __future__ import annotations

from typing import Any

from toolcards.transports.api.seats import NOT_YOURS, SIGNED_OUT, Seat, build_seat, find_expired_seats

NOT_THERE, AMBIGUOUS = 4404, 4409
__all__ = ["AMBIGUOUS", "NOT_THERE", "NOT_YOURS", "SIGNED_OUT", "Seat", "find_expired_seats", "find_seat"]


def find_seat(scope: dict[str, Any]) -> Seat | None:
    """Return the seat of the connection's person.

    None without a session.
    """
    user, session = scope.get("user"), scope.get("session")
    if user is None or session is None or not user.is_authenticated:
        return None
    return build_seat(user, session)
