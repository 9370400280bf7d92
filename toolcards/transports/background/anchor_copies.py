"""Sends copies of the anchor outside: to standard output, to a file, or by HTTP, as TOOLCARDS_AUDIT_COPY names them.

What is sent is the anchor's own line, which is signed; `audit verify --against` reads it. Each server process sends
for itself. A place that does not take a copy is tried again with the newest anchor, and holds up no other.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import time
from dataclasses import dataclass

from django.conf import settings

from toolcards.audit import anchor
from toolcards.audit.anchor import Anchor, InvalidAnchor
from toolcards.notifications import webhooks

log = logging.getLogger(__name__)
CHECK_SECONDS = 2.0  # seconds between two looks
RETRY_SECONDS = 30.0  # seconds until a place that failed is tried again


@dataclass
class Destination:
    """What a place has got: rows and anchor of the last copy, when it was sent, and when to try again."""

    seq: int = 0
    number: int = 0
    at: float = 0.0
    not_before: float = 0.0
    trouble: str = ""


destinations: dict[str, Destination] = {}
_last_complaint = 0.0


def send_due(now: float | None = None, *, all_of_it: bool = False) -> int:
    """Send the anchor to every destination that is due.

    `all_of_it`: to every destination that lacks it. Returns how many accepted it.
    """
    moment = time.time() if now is None else now
    if not settings.TOOLCARDS.audit_copy:
        return 0
    current = _read_anchor(moment)
    if current is None:
        return 0
    targets = [(name, destinations.setdefault(name, Destination(at=moment))) for name in settings.TOOLCARDS.audit_copy]
    due_targets = [(name, place) for name, place in targets if _is_due(place, current, moment, all_of_it)]
    return sum(_try_send(name, place, current, moment) for name, place in due_targets)


def describe_destination(name: str) -> str:
    """Describe the destination for people.

    Of a URL only the host, because its path may be secret.
    """
    if not name.startswith(("https://", "http://")):
        return name
    scheme, _, address = name.partition("://")
    host = re.split(r"[/?#\\]", address)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…"


def _read_anchor(now: float) -> Anchor | None:
    global _last_complaint
    try:
        anchor.write()
        current = anchor.read()
    except (InvalidAnchor, OSError):
        current = None
    if current is None or not current.signed:
        if now - _last_complaint > settings.TOOLCARDS.audit_copy_seconds:
            _last_complaint = now
            log.error("audit: there is no anchor to copy; `toolcards audit verify` shows what is wrong")
        return None
    return current


def _is_due(place: Destination, current: Anchor, now: float, all_of_it: bool) -> bool:
    if current.number == place.number or (now < place.not_before and not all_of_it):
        return False
    many = current.seq - place.seq >= settings.TOOLCARDS.audit_copy_rows
    return all_of_it or many or current.seq < place.seq or now - place.at >= settings.TOOLCARDS.audit_copy_seconds


def _try_send(name: str, place: Destination, current: Anchor, now: float) -> bool:
    try:
        _send(
            name,
            anchor.serialize_anchor(current),
            f"anchor_{current.line}_{current.number}",
            has_failed=bool(place.trouble),
        )
    except (OSError, ValueError, webhooks.NotDelivered) as error:  # ValueError: an unsafe URL, a closed output
        place.trouble, place.not_before = str(error), now + RETRY_SECONDS
        log.warning("audit: %s did not accept a copy of the anchor: %s", describe_destination(name), error)
        return False
    place.seq, place.number, place.at, place.not_before, place.trouble = current.seq, current.number, now, 0.0, ""
    return True


def _send(name: str, line: str, event_id: str, *, has_failed: bool) -> None:
    """Send one line; `has_failed`: the last try failed, perhaps in the middle of its line."""
    if name.startswith(("https://", "http://")):
        digest = hashlib.sha256(line.encode()).hexdigest()[:16]
        headers = {"Content-Type": "application/json", "webhook-id": f"{event_id}_{digest}"}
        webhooks.post(name, line.encode(), headers)
        return
    text = f"\n{line}\n" if has_failed else f"{line}\n"
    if name == "stdout":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    # Not blocking, because a pipe may have no reader.
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
    with os.fdopen(handle, "a") as file:
        file.write(text)
