"""Each fact that decides, opens, ends or claims leaves one entry in the audit trail, under the name of the actor."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.gate_commands import RecordFacts, make_ballot
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardPermit, CardTool
from toolcards.core.calls.identity import WORDS, find_permission
from toolcards.gate.writer import audit_entries, group_commit, transaction
from toolcards.gate.writer.audit_entries import add_day_counts
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Run, Source, SourceDay, ToolCall

ANN = f.Actor("human", "ann")
CHANGED, ANSWER = f.ApprovalChanged("c", "claimed", at=5.0), f.ApprovalAnswered("c", True, by=ANN, at=5.0)
END = f.CallClosed("c", "expired", reason="No one answered.", at=5.0)


class Memory:
    """A run of which the entries need the row alone."""

    row = Run(pk=3, name="r", source=Source(pk=1, name="an agent"))


MEMORY: Any = Memory()


def make_card(approval: CardApproval | None = None, **more: Any) -> Card:
    return Card("c", ordinal=7, tool=CardTool("bash"), approval=approval, **more)


def ask(state: str = "pending", pk: str = "apr_1", **more: Any) -> CardApproval:
    return CardApproval(pk, state=state, args_sha256="0f", **more)


def build(fact: Any, before: Card | None, card: Card) -> list[tuple[str, str, str, str]]:
    """Return act, kind and name of the actor, and approval of each entry."""
    acts = audit_entries.build_acts(MEMORY, fact, before, card)
    for act in acts:
        assert (act.run, act.call, act.at) == ("r", "3-7", 5.0)
        assert act.detail.items() >= {"call_id": "c", "tool": "bash"}.items()
    return [(act.act, act.kind, act.name, act.approval) for act in acts]


def test_a_decision_is_entered_with_all_that_it_rests_on() -> None:
    fact = f.PolicyDecided(
        "c", "deny", "rule", "Never.", "no-rm", 4, f.Actor("rule", "no-rm"), args_sha256="0f", at=5.0
    )  # fmt: skip
    (act,) = audit_entries.build_acts(MEMORY, fact, None, make_card())
    assert (act.act, act.kind, act.name, act.approval) == ("decision", "rule", "no-rm", "")
    assert act.detail == {
        "call_id": "c", "tool": "bash", "effect": "deny", "code": "rule", "reason": "Never.", "rule": "no-rm",
        "version": 4, "args_sha256": "0f", "source": "an agent",
    }  # fmt: skip


@loop_over("fact, state, expected", [
    (ANSWER, "approved", ("approval.approved", "human", "ann")),
    (f.ApprovalAnswered("c", False, by=ANN, at=5.0), "denied", ("approval.denied", "human", "ann")),
    (f.ApprovalAnswered("c", False, by=None, at=5.0), "denied", ("approval.denied", "gate", "")),
    (END, "expired", ("approval.expired", "timeout", "")),
    (f.ApprovalChanged("c", "expired", at=5.0), "expired", ("approval.expired", "timeout", "")),
    (f.CallClosed("c", "cancelled", at=5.0), "cancelled", ("approval.cancelled", "gate", "")),
    (f.CallClosed("c", "superseded", at=5.0), "superseded", ("approval.superseded", "gate", "")),
    (f.ApprovalChanged("c", "revoked", at=5.0), "revoked", ("approval.revoked", "gate", "")),
    (CHANGED, "claimed", ("claim", "agent", "an agent")),
])  # fmt: skip
def test_a_new_state_of_an_approval_is_entered_once(fact: Any, state: str, expected: Any) -> None:
    before, after = make_card(ask()), make_card(ask(state))
    assert build(fact, before, after) == [(*expected, "apr_1")]
    assert build(fact, after, make_card(ask(state, have=1))) == []  # the same state again
    assert build(fact, after, after) == []


def test_a_revocation_is_the_gates_because_the_entry_before_it_names_the_person() -> None:
    before, after = make_card(ask("approved", by=ANN)), make_card(ask("revoked", by=ANN))
    assert build(f.ApprovalChanged("c", "revoked", at=5.0), before, after) == [
        ("approval.revoked", "gate", "", "apr_1")
    ]


@loop_over("state", ["pending", "succeeded", "failed", "unknown"])
def test_a_state_that_reports_what_the_tool_did_is_no_act_of_the_gate(state: str) -> None:
    assert build(CHANGED, make_card(ask("claimed")), make_card(ask(state))) == []


def test_an_expiry_of_an_approval_that_a_person_gave_is_not_entered_as_the_persons() -> None:
    before, after = make_card(ask("approved", by=ANN)), make_card(ask("expired", by=ANN))
    assert build(f.ApprovalChanged("c", "expired", at=5.0), before, after) == [
        ("approval.expired", "timeout", "", "apr_1")
    ]


def test_the_reason_is_that_of_the_approval_else_that_of_the_fact() -> None:
    def get_reason(approval: CardApproval, fact: Any) -> Any:
        (act,) = audit_entries.build_acts(MEMORY, fact, make_card(ask()), make_card(approval))
        return act.detail.get("reason"), act.detail["args_sha256"]

    assert get_reason(ask("expired"), END) == ("No one answered.", "0f")
    assert get_reason(ask("expired", reason="Own."), END) == ("Own.", "0f")
    assert get_reason(ask("claimed"), CHANGED) == (None, "0f")  # empty details are left out


@loop_over("state, expected", [
    ("pending", [("approval.superseded", "gate", "", "apr_1")]), ("approved", []), ("denied", []),
])  # fmt: skip
def test_a_second_approval_of_a_call_supersedes_a_pending_first_one(state: str, expected: Any) -> None:
    fact = f.ApprovalRequested("c", id="apr_2", at=5.0)
    before, after = make_card(ask(state)), make_card(ask("pending", "apr_2"))
    assert build(fact, before, after) == expected
    acts = audit_entries.build_acts(MEMORY, fact, before, after)
    assert [act.detail["by_approval"] for act in acts] == ["apr_2"] * len(expected)
    again = make_card(ask("approved", "apr_2", by=ANN))  # approved at once, by a rule of the agent
    assert build(ANSWER, before, again)[len(expected) :] == [("approval.approved", "human", "ann", "apr_2")]


def test_an_approval_that_is_gone_is_entered_nowhere() -> None:
    assert build(CHANGED, make_card(ask()), make_card()) == []


def test_an_ungoverned_call_and_an_escalation_are_entered_and_other_anomalies_are_not() -> None:
    card = make_card(ask())
    assert build(f.AnomalyRecorded("c", "ungoverned", at=5.0), card, card) == [("ungoverned", "agent", "an agent", "")]
    assert build(f.AnomalyRecorded("c", "protocol-violation", at=5.0), card, card) == []
    escalated = f.ApprovalEscalated("c", ["group:lead"], at=5.0)
    (act,) = audit_entries.build_acts(MEMORY, escalated, card, card)
    assert (act.act, act.kind, act.approval, act.detail["to"]) == (
        "approval.escalated", "timeout", "apr_1", ["group:lead"],
    )  # fmt: skip
    assert build(escalated, make_card(), make_card()) == []


@loop_over("state, expected", [
    ("claimed", [("claim", "agent", "an agent")]), ("void", [("permit.cancelled", "gate", "")]),
    ("expired", [("permit.expired", "timeout", "")]), ("revoked", [("permit.revoked", "gate", "")]),
    ("issued", []), ("unknown", []), ("succeeded", []), ("superseded", []),
])  # fmt: skip
def test_the_end_of_a_rules_permit_is_entered(state: str, expected: Any) -> None:
    fact = f.PermitChanged("c", state, "alw_1", 5.0)  # type: ignore[arg-type]
    acts = audit_entries.build_permit_acts(MEMORY, fact, make_card(permit=CardPermit("alw_1", state)))
    assert [(act.act, act.kind, act.name) for act in acts] == expected
    assert all((act.approval, act.call, act.at) == ("alw_1", "3-7", 5.0) for act in acts)
    assert audit_entries.build_permit_acts(MEMORY, fact, make_card()) == []


pytestmark = pytest.mark.django_db
POLICY = {"default": "ask", "rules": [
    {"id": "yes", "effect": "allow", "match": {"tool": ["read"]}},
    {"id": "no", "effect": "deny", "match": {"tool": ["wipe"]}},
]}  # fmt: skip
HOST = f.Actor("host", "Claude Code")


def count_again() -> dict[str, int]:
    words = (find_permission(call.as_card()) for call in ToolCall.objects.all())
    return Counter(permission.word for permission in words if permission is not None)


def read_counts(source: Source) -> dict[str, int]:
    row = SourceDay.objects.get(source=source.pk)
    return Counter({word: getattr(row, word) for word in WORDS if getattr(row, word)})


def test_what_becomes_of_each_call_is_counted_once(source: Source, policy: Any, an_approver: Any) -> None:
    policy(POLICY)
    for number, tool in enumerate(["read", "read", "read", "wipe", "push", "push"]):
        call = f"c{number}"
        gate.decide(source, gate.DecisionRequest(run="r", call_id=call, tool=tool, args={}, place=call))
    assert read_counts(source) == count_again() == {"allowed": 3, "denied": 1, "asked": 2}
    gate.vote(an_approver, make_ballot(ToolCall.objects.get(call_id="c4"), "approve"))
    run_cache.clear()  # as after a restart
    group_commit.execute(RecordFacts(source, "r", [f.OutputDenied("c0", "risky", HOST), f.CallRemoved("c1")]))
    assert read_counts(source) == count_again() == {"allowed": 1, "refused": 1, "denied": 1, "asked": 2}


def test_a_commit_that_fails_counts_nothing(source: Source, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(POLICY)
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="read", args={}))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(transaction, "append_acts", lambda acts: 1 / 0)
        gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="read", args={}))
    gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="read", args={}))
    assert read_counts(source) == count_again() == {"allowed": 2}


def test_counts_add_up_by_source_and_day() -> None:
    for _ in range(2):
        add_day_counts({(1, 7, "allowed"): 2, (1, 7, "asked"): 1, (1, 8, "allowed"): 1, (2, 7, "denied"): 0})
    rows = SourceDay.objects.order_by("source", "day").values_list("source", "day", "allowed", "asked")
    assert list(rows) == [(1, 7, 4, 2), (1, 8, 2, 0)]
