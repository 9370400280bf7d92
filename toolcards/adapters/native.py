"""The native protocol, version 1, which `toolcards.client` speaks; specified in docs/api.md."""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, Adapter, ApprovalAnswer, Facts
from toolcards.adapters.frames import Decoder
from toolcards.adapters.native_frames import Frames
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame


def encode(answer: ApprovalAnswer) -> dict[str, Any]:
    """Return the answer as the native frame that carries one."""
    reply = {
        "type": "approval.responded", "call_id": answer.call_id, "approval_id": answer.source_id,
        "approved": answer.approved,
    }  # fmt: skip
    if answer.reason:
        reply["reason"] = answer.reason
    if answer.approved and answer.edited_input is not None:
        reply["input"] = answer.edited_input
    return reply


_NUMBERED = re.compile(r'\{"n":([1-9]\d{0,17})[,}]')


def find_number(text: str) -> int | None:
    """Return the frame's `n`.

    Fast if it is the first member, as our client writes it.
    """
    first = _NUMBERED.match(text)
    if first:
        return int(first[1])
    if '"n"' not in text:
        return None
    number = strict.read_members(text).get("n")
    return number if type(number) is int and 0 < number < 10**18 else None


# The hot frame as our client writes it: exactly these members in this order, so that none can be repeated.
_DELTA = re.compile(
    r'\{(?:"n":([1-9]\d{0,17}),[ \t\r\n]*)?"type":"tool\.input\.delta","call_id":"([^"\\\x00-\x1f]+)","delta":"'
)
_decode = Decoder(Frames).decode


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the frame's facts, SkippedFrame for an unknown type; raises BadFrame."""
    piece = find_piece(text)
    return _decode(text, depth) if piece is None else [f.InputDelta(*piece[0])]


def find_piece(text: str) -> tuple[f.InputPiece, int] | None:
    """Return piece and number (0 for none) of a hot frame.

    None for other frames.
    """
    head = _DELTA.match(text)
    if head is None:
        return None
    try:
        delta, end = scanstring(text, head.end())
    except ValueError:
        return None
    number, call_id = head.groups()
    return ((call_id, delta), int(number) if number else 0) if text[end:] == "}" else None


ADAPTER = Adapter("native", "1", decode, encode, find_number=find_number, find_piece=find_piece, gated=True)
