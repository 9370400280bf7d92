"""What one policy document says differently from another, in sentences: what people read before they activate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.language import document as documents

_NOTHING: Mapping[str, Any] = {"v": 1, "rules": []}


@dataclass(frozen=True, slots=True)
class Difference:
    """How one rule, or the answer where no rule matches, differs: `added`, `removed` or `changed`, in sentences."""

    kind: str
    name: str
    before: str = ""
    after: str = ""
    fields: tuple[str, ...] = ()  # what changed beside the sentence


def differences(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[Difference]:
    """Return what putting `new` in place of `old` changes; both must parse."""
    before, after = _by_name(old or _NOTHING), _by_name(new)
    heads = [_of_heads(field, (old or {}).get(field), new.get(field)) for field in _HEADS]
    rules = [_of_rules(name, before.get(name), after.get(name)) for name in {**before, **after}]
    return [found for found in (*heads, *rules) if found is not None]


@dataclass(frozen=True, slots=True)
class _Said:
    sentence: str
    rule: Mapping[str, Any]

    def of(self, field: str) -> Any:
        """What the rule says there, or what saying nothing means."""
        value = self.rule.get(field)
        return _UNSAID.get(field) if value is None else value


_UNSAID = {"enabled": True, "mode": "enforce", "severity": "medium", "public_reason": "", "suggest": ""}
_HEADS = {
    "default": "Where no rule matches",
    "unknown_tool": "For tools not seen before",
    "changed_tool": "For tools whose definition changed",
    "overridable": "Lower layers may answer the default",
    "default_ask": "How questions are answered that no rule asks",
}
_LABELS = {"public_reason": "reason"}


def _by_name(document: Mapping[str, Any]) -> dict[str, _Said]:
    rules = documents.parse(dict(document)).rules
    return {rule.id: _Said(rule.sentence, raw) for rule, raw in zip(rules, document.get("rules", ()), strict=True)}


def _of_rules(name: str, old: _Said | None, new: _Said | None) -> Difference | None:
    if old is None:
        return Difference("added", name, after=new.sentence if new else "")
    if new is None:
        return Difference("removed", name, before=old.sentence)
    fields = tuple(
        f"{_LABELS.get(field, field)}: {_short(old.of(field))} → {_short(new.of(field))}"
        for field in sorted({*old.rule, *new.rule} - {"id", "match", "unless"})
        if old.of(field) != new.of(field)
    )
    same = all(old.of(field) == new.of(field) for field in ("match", "unless"))
    return None if same and not fields else Difference("changed", name, old.sentence, new.sentence, fields)


def _of_heads(field: str, old: Any, new: Any) -> Difference | None:
    if old == new:
        return None
    return Difference("changed", _HEADS[field], f"{_HEADS[field]}: {_short(old)}", f"{_HEADS[field]}: {_short(new)}")


def _short(value: Any) -> str:
    if value is None or value == "":
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
