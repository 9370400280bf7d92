"""The stored form of cards: JSON text."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import Any

from toolcards.core.calls.card import (
    Card,
    CardApproval,
    CardDecision,
    CardError,
    CardManualOutcome,
    CardPermit,
    CardTool,
    Milestones,
    ToolCallState,
)
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.facts.codec import SHARED, encode_record, encode_value
from toolcards.core.text.text_rope import Rope

_PLAIN_FIELDS = tuple(f.name for f in fields(Card) if f.name not in {"text", "segment"})
_DEFAULTS = Card("").__dict__
_NESTED = {
    "tool": CardTool, "error": CardError, "approval": CardApproval, "decision": CardDecision, "times": Milestones,
    "denied_by": Actor, "by_hand": CardManualOutcome, "retry_by": Actor, "permit": CardPermit,
}  # fmt: skip


def dump_card(card: Card, *, with_text: bool = True) -> str:
    """Return the card as ASCII JSON without default values."""
    record: dict[str, Any] = {}
    shared_parts: dict[str, Any] = {}
    values = card.__dict__
    for name in _PLAIN_FIELDS:
        value = values[name]
        if value is _DEFAULTS[name]:
            continue
        if name in SHARED:
            shared_parts[name] = value
        else:
            record[name] = _encode_part(value) if type(value) in _PART_DEFAULTS else value
    if with_text:
        record["text"] = str(card.text)
    if card.segment is not None:
        record["segment"] = str(card.segment)
    return encode_record(record, shared_parts)


def measure_card(card: Card) -> int:
    """Return about how many characters the stored card has, with its text."""
    ask = card.approval
    values = (card.input, card.output, card.original_input, card.detail, ask.edited if ask else None)
    return card.text.length + sum([len(encode_value(value)) for value in values if value is not None])


def load_card(record: str, text: str | None = None) -> Card:
    """Return the card that `dump_card` wrote; `text` if it was stored separately."""
    values = json.loads(record)
    for name, cls in _NESTED.items():
        if values.get(name) is not None:
            values[name] = _load_part(cls, values[name])
    values["agent_path"] = tuple(values.get("agent_path", ()))
    values["anomalies"] = tuple((code, timestamp) for code, timestamp in values.get("anomalies", ()))
    values["text"] = Rope(values.get("text", "") if text is None else text)
    if values.get("segment") is not None:
        values["segment"] = Rope(values["segment"])
    if values.get("state"):
        values["state"] = ToolCallState(values["state"])
    return Card(**values)


def _encode_part(part: Any) -> dict[str, Any]:
    encoded_parts: dict[str, Any] = {}
    for name, default in _PART_DEFAULTS[type(part)]:
        value = getattr(part, name)
        if value is not default:
            encoded_parts[name] = {"kind": value.kind, "name": value.name} if type(value) is Actor else value
    return encoded_parts


def _list_defaults(cls: type) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, {} if f.default_factory is not MISSING else f.default) for f in fields(cls))


_PART_DEFAULTS = {
    cls: _list_defaults(cls)
    for cls in (CardTool, CardError, CardApproval, CardDecision, CardPermit, Milestones, Actor, CardManualOutcome)
}


def _load_part(cls: type, values: dict[str, Any]) -> Any:
    if values.get("by") is not None:
        values["by"] = Actor(**values["by"])
    if "would" in values:
        values["would"] = tuple(values["would"])
    if "former_ids" in values:
        values["former_ids"] = tuple(values["former_ids"])
    if "escalated" in values:
        values["escalated"] = tuple((name, timestamp) for name, timestamp in values["escalated"])
    return cls(**values)
