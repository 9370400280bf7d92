"""The differences of two policy documents in sentences, which people read before they activate one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
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
    effect: str = ""  # of a rule; settings have none


def compare_documents(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[PolicyDifference]:
    """Return the changes from `old` to `new`; both must be valid."""
    before, after = _index_rules(old or _NOTHING), _index_rules(new)
    heads = [_compare_settings(field, _get_setting(old, field), _get_setting(new, field)) for field in _SETTINGS]
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


_DEFAULTS = {"enabled": True, "mode": "enforce", "severity": "medium", "public_reason": "", "suggest": "", "match": {}}
_SETTINGS = {
    "default": "If no rule matches",
    "unknown_tool": "For tools not seen before",
    "changed_tool": "For tools whose definition changed",
    "agent_questions": "Who answers what an agent asks on its own",
    "default_ask": "How approvals work that no rule asks for",
    "default_review": "Who reviews calls that no rule matches",
    "reviewers": "Reviewers",
}
_LABELS = {"public_reason": "reason"}
_CONDITIONS = ("match", "unless")
_SHORTENED = re.compile(r"[0-9] more\b")  # a sentence names the first values of a list only


def _index_rules(document: Mapping[str, Any]) -> dict[str, _DescribedRule]:
    rules = documents.parse(dict(document)).rules
    return {
        rule.id: _DescribedRule(rule.sentence, raw) for rule, raw in zip(rules, document.get("rules", ()), strict=True)
    }


def _compare_rules(name: str, old: _DescribedRule | None, new: _DescribedRule | None) -> PolicyDifference | None:
    if old is None:
        return PolicyDifference("added", name, after=new.sentence, effect=new.rule["effect"]) if new else None
    if new is None:
        return PolicyDifference("removed", name, before=old.sentence, effect=old.rule["effect"])
    fields = [
        f"{_LABELS.get(field, field)}: {_format_value(old.get_value(field))} → {_format_value(new.get_value(field))}"
        for field in sorted({*old.rule, *new.rule} - {"id", *_CONDITIONS})
        if old.get_value(field) != new.get_value(field)
    ]
    same = all(old.get_value(field) == new.get_value(field) for field in _CONDITIONS)
    if same and not fields:
        return None
    if old.sentence == new.sentence or _SHORTENED.search(old.sentence + new.sentence):
        for field in _CONDITIONS:
            fields += _compare_conditions(field, old.get_value(field), new.get_value(field))
    return PolicyDifference("changed", name, old.sentence, new.sentence, tuple(fields), new.rule["effect"])


def _compare_conditions(place: str, old: Any, new: Any) -> Iterator[str]:
    """Yield each change below this place, for conditions that sentences do not show."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in {**old, **new}:
            yield from _compare_conditions(f"{place}.{name}", old.get(name), new.get(name))
    elif _is_list_of_conditions(old) and _is_list_of_conditions(new) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True), 1):
            yield from _compare_conditions(f"{place}.{number}", before, after)
    else:
        old_only, new_only = _count_values(old) - _count_values(new), _count_values(new) - _count_values(old)
        if old_only or new_only:
            yield f"{place}: {', '.join(old_only) or '—'} → {', '.join(new_only) or '—'}"


def _is_list_of_conditions(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _count_values(value: Any) -> Counter[str]:
    """Count the values of a list; one value can be written without its list."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return Counter(_format_value(each) for each in values)


def _get_setting(document: Mapping[str, Any] | None, field: str) -> Any:
    """Return a setting of the document, or its default; None without a document."""
    value = (document or {}).get(field)
    if field == "agent_questions":
        return value or "people"
    return "ask" if document and field == "default" and value is None else value


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
