"""What a person sends to vote."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any

MAX_REASON_LENGTH = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote as the person sent it, with the revision and arguments it was cast on."""

    approval: str
    decision: str
    rev: int
    args_sha256: str
    view_sha256: str = ""  # digest of the card as it was shown, if the sender includes it
    reason: str = ""
    note: str = ""
    client_decision_id: str = ""
    grant: dict[str, Any] = field(default_factory=dict)
    edited_args: Any = None
    signed_in_at: float | None = None  # of the session, in epoch seconds; None: the person's latest sign-in


def clean_comment(text: str) -> str:
    """Return the comment without control characters, cut to MAX_REASON_LENGTH."""
    printable = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")
    return printable[:MAX_REASON_LENGTH]
