"""People who read: whether a session still may, because open sockets and streams outlive a sign-out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from toolcards import database

VIEW = "toolcards.view_run"
SIGNED_OUT, NOT_YOURS = 4401, 4403


@dataclass(frozen=True, slots=True)
class Seat:
    """A person at a browser: their session, and the password hash that it was created with."""

    person: int
    session: str
    proof: str


def build_seat(person: Any, session: Any) -> Seat:
    """Return the seat of a signed-in person."""
    return Seat(person.pk, session.session_key or "", session.get(HASH_SESSION_KEY, ""))


def find_seat(scope: dict[str, Any]) -> Seat | None:
    """Return the seat of a connection, None without a session."""
    user, session = scope.get("user"), scope.get("session")
    if user is None or session is None or not user.is_authenticated:
        return None
    return build_seat(user, session)


def find_expired_seats(seats: Iterable[Seat]) -> dict[Seat, int]:
    """Return the seats that have lost access, with their close codes."""
    seats = set(seats)
    sessions = {seat.session for seat in seats}
    alive = Session.objects.filter(session_key__in=sessions, expire_date__gt=timezone.now())
    live_sessions = set(alive.values_list("session_key", flat=True))
    people = get_user_model().objects.filter(is_active=True).in_bulk({seat.person for seat in seats})
    can_view = {pk: person.has_perm(VIEW) for pk, person in people.items()}
    return {seat: code for seat in seats if (code := _find_close_code(seat, live_sessions, people, can_view))}


def _find_close_code(seat: Seat, live_sessions: set[str], people: dict[int, Any], can_view: dict[int, bool]) -> int:
    person = people.get(seat.person)
    if (
        person is None
        or seat.session not in live_sessions
        or not constant_time_compare(seat.proof, person.get_session_auth_hash())
    ):
        return SIGNED_OUT
    return 0 if can_view[seat.person] else NOT_YOURS


afind_expired_seats = database.retry_reads(find_expired_seats)
