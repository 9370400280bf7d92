"""Ballots of forms that a page sends as they are, read without Django's forms, which take longer than the vote."""

from __future__ import annotations

import re

from django.http import QueryDict

from toolcards.gate import Ballot

_TEXTS = {"reason": 2_000, "note": 2_000, "client_decision_id": 100}  # and their longest values
_PATTERNS = {
    "decision": re.compile(r"approve|deny"),
    "rev": re.compile(r"[0-9]{1,9}"),
    "args_sha256": re.compile(r"[0-9a-f]{0,64}"),
    "view_sha256": re.compile(r"[0-9a-f]{0,64}"),
    "grant": re.compile(""),
    "grant_minutes": re.compile(""),
}
_REQUIRED = ("decision", "rev")


def read_plain_ballot(approval: str, fields: QueryDict) -> Ballot | None:
    """Return the ballot of a form that approves or denies, without more.

    None for all others, which BallotForm reads. A ballot is the one that BallotForm returns.
    """
    if any("\0" in text for text in fields.values()):
        return None
    values = {}
    for name, pattern in _PATTERNS.items():
        value = fields.get(name, "" if name not in _REQUIRED else "-")
        if pattern.fullmatch(value) is None:
            return None
        values[name] = value
    for name, longest in _TEXTS.items():
        values[name] = fields.get(name, "").strip()
        if len(values[name]) > longest:
            return None
    return Ballot(
        approval, values["decision"], int(values["rev"]), values["args_sha256"], values["view_sha256"],
        values["reason"], values["note"], values["client_decision_id"],
    )  # fmt: skip
