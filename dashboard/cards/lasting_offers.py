"""The lasting answers of a question as buttons: what each covers, and for which agents."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

FIELDS = ("always", "always_deny")
_SCOPES = {"run": "in this run", "any": "for any agent"}


class LastingChoice(NamedTuple):
    """A button: its value, its scope in words, and how many past calls it covers, "" if they are not counted yet."""

    value: str
    scope: str
    covered: str = ""


class LastingOffer(NamedTuple):
    """What a lasting answer covers, in words, and the buttons that give it."""

    words: str
    choices: list[LastingChoice]


def list_lasting_offers(
    terms: dict[str, Any], field: str, coverage: Mapping[str, str] | None = None
) -> list[LastingOffer]:
    """Return what this field of the form offers.

    `coverage` says for each value how many past calls it covers.
    """
    return [
        LastingOffer(words, [_build_choice(value, scope, coverage or {}) for value, _, scope in choices])
        for words, choices in groupby(terms.get(field, ()), key=lambda offer: offer[1])
    ]


def _build_choice(value: str, scope: str, coverage: Mapping[str, str]) -> LastingChoice:
    words = _SCOPES.get(value.rpartition(":")[2], f"for {scope}")
    return LastingChoice(value, words, coverage.get(value, ""))
