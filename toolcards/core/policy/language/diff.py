"""The differences of two policy documents in sentences, which people read before they activate one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.language import document as documents

_NOTHING: Mapping[str, Any] = {"v": 1, "rules": []}


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """A difference of one rule or setting: `added`, `removed` or `changed`, in sentences."""

    kind: str
    name: str
    before: str = ""
    after: str = ""
    fields: tuple[str, ...] = ()  # changes that are not in the sentence


def compare_documents(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[PolicyDifference]:
    """Return the changes from `old` to `new`; both must be valid."""
    before, after = _index_rules(old or _NOTHING), _index_rules(new)
    heads = [_compare_settings(field, (old or {}).get(field), new.get(field)) for field in _SETTINGS]
    rules = [_compare_rules(name, before.get(name), after.get(name)) for name in {**before, **after}]
    return [difference for difference in (*heads, *rules) if difference is not None]


@dataclass(frozen=True, slots=True)
class _DescribedRule:
    sentence: str
    rule: Mapping[str, Any]

    def get_value(self, field: str) -> Any:
        """Return the value of the field, or its default."""
        value = self.rule.get(field)
        return _DEFAULTS.get(field) if value is None else value


_DEFAULTS = {"enabled": True, "mode": "enforce", "severity": "medium", "public_reason": "", "suggest": ""}
_SETTINGS = {
    "default": "If no rule matches",
    "unknown_tool": "For tools not seen before",
    "changed_tool": "For tools whose definition changed",
    "default_ask": "How approvals work that no rule asks for",
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
        f"{_LABELS.get(field, field)}: {_format_value(old.get_value(field))} → {_format_value(new.get_value(field))}"
        for field in sorted({*old.rule, *new.rule} - {"id", "match", "unless"})
        if old.get_value(field) != new.get_value(field)
    )
    same = all(old.get_value(field) == new.get_value(field) for field in ("match", "unless"))
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
