"""What one policy document says differently from another, in sentences: what people read before they activate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.language import document as documents

_NOTHING: Mapping[str, Any] = {"v": 1, "rules": []}


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """How one rule, or the answer where no rule matches, differs: `added`, `removed` or `changed`, in sentences."""

    kind: str
    name: str
    before: str = ""
    after: str = ""
    fields: tuple[str, ...] = ()  # what changed beside the sentence


def compare_documents(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[PolicyDifference]:
    """Return what putting `new` in place of `old` changes; both must parse."""
    before, after = _index_rules(old or _NOTHING), _index_rules(new)
    heads = [_compare_settings(field, (old or {}).get(field), new.get(field)) for field in _SETTINGS]
    rules = [_compare_rules(name, before.get(name), after.get(name)) for name in {**before, **after}]
    return [found for found in (*heads, *rules) if found is not None]


@dataclass(frozen=True, slots=True)
class _DescribedRule:
    sentence: str
    rule: Mapping[str, Any]

    def of(self, field: str) -> Any:
        """What the rule says there, or what saying nothing means."""
        value = self.rule.get(field)
        return _DEFAULTS.get(field) if value is None else value


_DEFAULTS = {"enabled": True, "mode": "enforce", "severity": "medium", "public_reason": "", "suggest": ""}
_SETTINGS = {
    "default": "Where no rule matches",
    "unknown_tool": "For tools not seen before",
    "changed_tool": "For tools whose definition changed",
    "overridable": "Lower layers may answer the default",
    "default_ask": "How questions are answered that no rule asks",
}
_LABELS = {"public_reason": "reason"}


def _index_rules(document: Mapping[str, Any]) -> dict[str, _DescribedRule]:
    rules = documents.parse(dict(document)).rules
    return {
        rule.id: _DescribedRule(rule.sentence, raw) for rule, raw in zip(rules, document.get("rules", ()), strict=True)
    }


def _compare_rules(name: str, old: _DescribedRule | None, new: _DescribedRule | None) -> PolicyDifference | None:
    if old is None:
        return PolicyDifference("added", name, after=new.sentence if new else "")
    if new is None:
        return PolicyDifference("removed", name, before=old.sentence)
    fields = tuple(
        f"{_LABELS.get(field, field)}: {_format_value(old.of(field))} → {_format_value(new.of(field))}"
        for field in sorted({*old.rule, *new.rule} - {"id", "match", "unless"})
        if old.of(field) != new.of(field)
    )
    same = all(old.of(field) == new.of(field) for field in ("match", "unless"))
    return None if same and not fields else PolicyDifference("changed", name, old.sentence, new.sentence, fields)


def _compare_settings(field: str, old: Any, new: Any) -> PolicyDifference | None:
    if old == new:
        return None
    return PolicyDifference(
        "changed",
        _SETTINGS[field],
        f"{_SETTINGS[field]}: {_format_value(old)}",
        f"{_SETTINGS[field]}: {_format_value(new)}",
    )


def _format_value(value: Any) -> str:
    if value is None or value == "":
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
