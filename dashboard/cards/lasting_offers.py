"""The lasting answers of a question as buttons: what each covers, and for which agents."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

_VERBS = {"always": "Always allow", "always_deny": "Always deny"}
_SCOPES = {"run": "in this run", "any": "for any agent"}


class LastingOffer(NamedTuple):
    """What a lasting answer covers. `choices` are the values of its buttons, each with its scope in words."""

    field: str
    verb: str
    words: str
    choices: list[tuple[str, str]]


def list_lasting_offers(terms: dict[str, Any]) -> list[LastingOffer]:
    """Return the offers of a question, those that allow first."""
    return [
        LastingOffer(field, verb, words, [(value, _describe_scope(value, scope)) for value, _, scope in choices])
        for field, verb in _VERBS.items()
        for words, choices in groupby(terms.get(field, ()), key=lambda offer: offer[1])
    ]


def _describe_scope(value: str, scope: str) -> str:
    return _SCOPES.get(value.rpartition(":")[2], f"for {scope}")
