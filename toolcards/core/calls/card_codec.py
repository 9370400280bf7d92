"""Cards as JSON text: how they are stored."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import Any

from toolcards.core.calls.card import (
    Card,
    CardApproval,
    CardDecision,
    CardError,
    CardPermit,
    CardTool,
    ManualOutcome,
    Milestones,
    ToolCallState,
)
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.text_rope import Rope

_PLAIN_FIELDS = tuple(f.name for f in fields(Card) if f.name not in {"text", "segment"})
_DEFAULTS = Card("").__dict__
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_NESTED = {
    "tool": CardTool, "error": CardError, "approval": CardApproval, "decision": CardDecision, "times": Milestones,
    "denied_by": Actor, "by_hand": ManualOutcome, "permit": CardPermit,
}  # fmt: skip


def dump_card(card: Card, *, with_text: bool = True) -> str:
    """Return the card as ASCII JSON for storage; fields at their default are left out."""
    said: dict[str, Any] = {}
    values = card.__dict__
    for name in _PLAIN_FIELDS:
        value = values[name]
        if value is not _DEFAULTS[name]:
            said[name] = _encode_value(value)
    if with_text:
        said["text"] = str(card.text)
    if card.segment is not None:
        said["segment"] = str(card.segment)
    return _encoded(said)


def load_card(stored: str, text: str | None = None) -> Card:
    """Return the card that `dump_card` wrote; `text` where it was stored apart."""
    said = json.loads(stored)
    for name, cls in _NESTED.items():
        if said.get(name) is not None:
            said[name] = _load_part(cls, said[name])
    said["agent_path"] = tuple(said.get("agent_path", ()))
    said["anomalies"] = tuple((code, at) for code, at in said.get("anomalies", ()))
    said["text"] = Rope(said.get("text", "") if text is None else text)
    if said.get("segment") is not None:
        said["segment"] = Rope(said["segment"])
    if said.get("state"):
        said["state"] = ToolCallState(said["state"])
    return Card(**said)


def _encode_value(value: Any) -> Any:
    cls = type(value)
    if cls in _PART_DEFAULTS:
        blank = _PART_DEFAULTS[cls]
        shown = {name: getattr(value, name) for name, default in blank if getattr(value, name) is not default}
        return {name: {"kind": v.kind, "name": v.name} if type(v) is Actor else v for name, v in shown.items()}
    return value


def _list_defaults(cls: type) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, {} if f.default_factory is not MISSING else f.default) for f in fields(cls))


_PART_DEFAULTS = {
    cls: _list_defaults(cls)
    for cls in (CardTool, CardError, CardApproval, CardDecision, CardPermit, Milestones, Actor, ManualOutcome)
}


def _load_part(cls: type, said: dict[str, Any]) -> Any:
    if said.get("by") is not None:
        said["by"] = Actor(**said["by"])
    if "would" in said:
        said["would"] = tuple(said["would"])
    if "escalated" in said:
        said["escalated"] = tuple((to, at) for to, at in said["escalated"])
    return cls(**said)
