"""Addresses of pages, and the numbers and ids in them."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from django.urls.converters import IntConverter

from toolcards.models import Run, encode_run_name, get_run_path

_NUMBER = re.compile("[0-9]{1,18}")


class NumberConverter(IntConverter):
    """A number in an address, limited to the range of database ids, beyond which SQLite raises."""

    regex = _NUMBER.pattern


def read_number(text: str) -> int | None:
    """Return the number of a query or form, None for other text.

    `str.isdigit` alone is true for "²", which `int` refuses, and `int` refuses thousands of digits.
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def read_public_id(text: str) -> tuple[int, int] | None:
    """Return run and ordinal of a public id, None for other text."""
    run, _, ordinal = (read_number(part) for part in text.partition("-"))
    return None if run is None or ordinal is None else (run, ordinal)


def build_run_url(name: str, source: str, **query: str | int) -> str:
    """Return the address of the run's page, with this query."""
    return get_run_path(name, source, **query)


def build_run_socket_url(run_shown: Run, **query: str | int) -> str:
    """Return the address of the run's live socket, with this query."""
    return f"/ws/runs/{encode_run_name(run_shown.name)}/?{urlencode({'source': run_shown.source.name} | query)}"


def build_call_url(public_id: str) -> str:
    """Return the address of the call's page."""
    return f"/calls/{public_id}/"


def build_vote_url(approval: str) -> str:
    """Return where answers to the approval are posted."""
    return f"/approvals/{approval}/vote"


def build_rule_url(rule_id: str) -> str:
    """Return the address of a rule of the policy's draft."""
    return f"/policy/rules/{rule_id}/"


def build_undo_url(approval: str) -> str:
    """Return where the undo of an approval is posted."""
    return f"/approvals/{approval}/undo"
