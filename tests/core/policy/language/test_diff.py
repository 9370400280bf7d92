"""The changes of a policy: everything that people activate is shown to them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.language.diff import PolicyDifference, compare_documents
from toolcards.core.policy.language.document import PolicyError

PUSH = {
    "id": "push",
    "effect": "ask",
    "match": {"tool": "Bash", "args": {"path": "/command", "op": "cmd", "value": "a"}},
}


def build_document(*rules: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"v": 1, "rules": list(rules), **settings}


def compare_rule(old: dict[str, Any], new: dict[str, Any]) -> PolicyDifference | None:
    """Return the only difference between two forms of the rule `push`."""
    changes = compare_documents(build_document(PUSH | old), build_document(PUSH | new))
    assert len(changes) < 2
    return changes[0] if changes else None


def compare_matches(old: Any, new: Any, field: str = "match") -> tuple[str, ...] | None:
    """Return the changes of conditions that the sentence does not show."""
    change = compare_rule({field: old}, {field: new})
    return change.fields if change else None


# ---------------------------------------------------------------- rules
def test_a_new_and_a_removed_rule_are_their_sentences() -> None:
    rule = {"id": "r", "effect": "deny", "match": {"tool": "rm"}}
    sentence = "Deny when rm is called."
    added = PolicyDifference("added", "r", after=sentence, effect="deny")
    assert compare_documents(build_document(), build_document(rule)) == [added]
    removed = PolicyDifference("removed", "r", before=sentence, effect="deny")
    assert compare_documents(build_document(rule), build_document()) == [removed]


def test_a_changed_rule_is_both_sentences() -> None:
    change = compare_rule({"match": {"tool": "rm"}}, {"match": {"tool": "mv"}})
    assert change == PolicyDifference(
        "changed", "push", "Ask when rm is called.", "Ask when mv is called.", effect="ask"
    )


def test_a_rule_of_every_call_may_say_so_or_leave_its_conditions_out() -> None:
    rule = {"id": "r", "effect": "deny"}
    assert compare_documents(build_document(rule | {"match": {}}), build_document(rule)) == []


def test_an_equal_rule_at_another_place_is_no_change() -> None:
    other = {"id": "other", "effect": "deny"}
    assert compare_documents(build_document(PUSH, other), build_document(other, dict(PUSH))) == []


def test_changes_come_in_the_order_of_settings_old_rules_and_new_rules() -> None:
    a, b, c = ({"id": name, "effect": "deny"} for name in "abc")
    changes = compare_documents(build_document(a, b), build_document(c, b | {"effect": "ask"}, default="deny"))
    assert [(change.kind, change.name) for change in changes] == [
        ("changed", "If no rule matches"), ("removed", "a"), ("changed", "b"), ("added", "c"),
    ]  # fmt: skip


def test_a_rule_without_an_id_that_changes_is_another_rule() -> None:
    old, new = {"effect": "deny", "match": {"tool": "rm"}}, {"effect": "deny", "match": {"tool": "mv"}}
    changes = compare_documents(build_document(old), build_document(new))
    assert [change.kind for change in changes] == ["removed", "added"] and changes[0].name != changes[1].name
    assert compare_documents(build_document(old), build_document(dict(old))) == []


def test_an_invalid_document_is_refused() -> None:
    with pytest.raises(PolicyError):
        compare_documents(build_document(), build_document({"effect": "maybe"}))
    with pytest.raises(PolicyError):
        compare_documents(build_document({"effect": "maybe"}), build_document())


FIELDS = [
    ({}, {"enabled": False}, "enabled: true → false"), ({"mode": "monitor"}, {}, "mode: monitor → enforce"),
    ({}, {"severity": "high"}, "severity: medium → high"), ({}, {"public_reason": "No."}, "reason: — → No."),
    ({"suggest": "x"}, {"suggest": ""}, "suggest: x → —"),
    ({}, {"expires_at": "2026-01-01T00:00:00Z"}, "expires_at: — → 2026-01-01T00:00:00Z"),
    ({}, {"ask": {"quorum": 2}}, 'ask: — → {"quorum": 2}'), ({"effect": "deny"}, {}, "effect: deny → ask"),
]  # fmt: skip


@loop_over(("old", "new", "field"), FIELDS)
def test_a_change_that_is_in_no_sentence_is_listed(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    change = compare_rule(old, new)
    assert change is not None and (change.kind, change.fields) == ("changed", (field,))


@loop_over(
    "more",
    [
        {"enabled": True}, {"mode": "enforce"}, {"severity": "medium"}, {"public_reason": ""}, {"suggest": None},
        {"ask": None}, {"unless": None}, {"expires_at": None},
    ],
)  # fmt: skip
def test_a_default_that_is_written_out_is_no_change(more: dict[str, Any]) -> None:
    assert compare_rule({}, more) is None and compare_rule(more, {}) is None


# ---------------------------------------------------------------- conditions that a sentence does not show
def names(*values: str, **more: Any) -> dict[str, Any]:
    return {"args": [{"path": "/command", "op": "prefix", "value": list(values), **more}]}


SIX = ("a", "b", "c", "d", "e", "f")
HIDDEN = [
    ("the fifth of a list", names(*SIX), names("a", "b", "c", "d", "X", "f"), ("match.args.1.value: e → X",)),
    ("one more in a long list", names(*SIX), names(*SIX, "g"), ("match.args.1.value: — → g",)),
    ("one less in a long list", names(*SIX), names(*SIX[:5]), ("match.args.1.value: f → —",)),
    ("two for two", names(*SIX), names("a", "b", "c", "d", "x", "y"), ("match.args.1.value: e, f → x, y",)),
    ("one twice", names(*SIX), names(*SIX, "f"), ("match.args.1.value: — → f",)),
    ("which agent counts", {"agent": "a"}, {"agent": "a", "agent_scope": "leaf"}, ("match.agent_scope: — → leaf",)),
    ("how many values count", {"args": [{"path": "/a/*", "op": "eq", "value": 1, "quant": "any"}]},
     {"args": [{"path": "/a/*", "op": "eq", "value": 1}]}, ("match.args.1.quant: any → —",)),
]  # fmt: skip


@loop_over(("old", "new", "fields"), [pytest.param(*rest, id=name) for name, *rest in HIDDEN])
def test_a_change_that_the_sentence_cuts_off_is_listed(old: Any, new: Any, fields: tuple[str, ...]) -> None:
    assert compare_matches(old, new) == fields


def test_values_that_two_conditions_exchange_are_listed() -> None:
    def both(first: str, second: str) -> dict[str, Any]:
        return {"args": [*names(*SIX[:5], first)["args"], *names(*SIX[:5], second)["args"]]}

    assert compare_matches(both("x", "y"), both("y", "x")) == ("match.args.1.value: x → y", "match.args.2.value: y → x")


def test_an_exception_that_the_sentence_cuts_off_is_listed() -> None:
    def exceptions(count: int) -> list[dict[str, Any]]:
        return [{"args": [{"path": f"/{number}", "op": "exists"}]} for number in range(count)]

    assert compare_matches(exceptions(6), exceptions(7), "unless") == (
        'unless: — → {"args": [{"path": "/6", "op": "exists"}]}',
    )


@loop_over(("old", "new"), [({"tool": "rm"}, {"tool": ["rm"]}), (names(*SIX), names(*reversed(SIX)))])
def test_another_spelling_of_the_same_conditions_lists_nothing(old: Any, new: Any) -> None:
    assert not compare_matches(old, new)


def test_a_change_that_the_sentences_show_is_not_repeated() -> None:
    assert compare_matches(names("a"), names("b")) == ()


# ---------------------------------------------------------------- settings
SETTINGS = [
    ({}, {"default": "deny"}, "If no rule matches: ask", "If no rule matches: deny"),
    ({"default": "allow"}, {}, "If no rule matches: allow", "If no rule matches: ask"),
    ({}, {"unknown_tool": "ask"}, "For tools not seen before: —", "For tools not seen before: ask"),
    ({"changed_tool": "ask"}, {}, "For tools whose definition changed: ask", "For tools whose definition changed: —"),
    ({}, {"agent_questions": "agent"}, "Who answers what an agent asks on its own: people",
     "Who answers what an agent asks on its own: agent"),
    ({}, {"default_ask": {"quorum": 2}}, "How approvals work that no rule asks for: —",
     'How approvals work that no rule asks for: {"quorum": 2}'),
]  # fmt: skip


@loop_over(("old", "new", "before", "after"), SETTINGS)
def test_a_setting_shows_what_counted_and_what_will_count(old: Any, new: Any, before: str, after: str) -> None:
    (change,) = compare_documents(build_document(**old), build_document(**new))
    assert (change.kind, change.name, change.before, change.after) == (
        "changed", before.partition(":")[0], before, after,
    )  # fmt: skip


def test_the_default_answer_that_is_written_out_is_no_change() -> None:
    assert compare_documents(build_document(), build_document(default="ask")) == []


def test_without_a_version_before_everything_is_new() -> None:
    changes = compare_documents(None, build_document(PUSH))
    assert [(change.kind, change.name, change.before) for change in changes] == [
        ("changed", "If no rule matches", "If no rule matches: —"), ("added", "push", ""),
    ]  # fmt: skip
