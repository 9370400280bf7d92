"""The decision object says what the card says: its effect, who decided it and why, and what may run now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.calls.card import (
    BY_SOURCE,
    EDITED,
    Card,
    CardApproval,
    CardDecision,
    CardError,
    CardManualOutcome,
    CardPermit,
    CardTool,
    ToolCallState,
)  # fmt: skip
from toolcards.core.calls.facts import Actor
from toolcards.core.runs.run_state import RunState
from toolcards.gate.decisions import responses
from toolcards.models import Run, Source

pytestmark = pytest.mark.django_db
S, TEXTS = ToolCallState, responses._TEXTS
ANN, RULE = Actor("human", "ann"), Actor("rule", "no-rm")
ALLOW, ASK, DENY = (
    CardDecision(effect, "rule", f"Because: {effect}.", "no-rm", 4, RULE, suggest="Try ls.")
    for effect in ("allow", "ask", "deny")
)


class Memory:
    """A run of which a response needs the row and the announced tools, of which it has none."""

    row = Run(pk=3, name="r", source=Source(pk=1, name="an agent"))
    board = RunState()


MEMORY: Any = Memory()


def make_card(state: ToolCallState | None = S.INPUT_AVAILABLE, **more: Any) -> Card:
    return Card(
        "c", ordinal=7, state=state, tool=CardTool("bash", source="server"), input={"a": 1}, has_input=True, **more
    )


def ask(state: str = "pending", opener: str = "gate", **more: Any) -> CardApproval:
    return CardApproval("apr_1", state=state, opener=opener, **more)


REQUESTED = make_card(S.APPROVAL_REQUESTED, decision=ASK, approval=ask())
APPROVED = make_card(S.APPROVAL_RESPONDED, decision=ASK, approval=ask("approved", by=ANN))
DENIED = make_card(S.OUTPUT_DENIED, decision=ASK, approval=ask("denied", by=ANN), denied="no", denied_by=ANN)
LOST_CARD = make_card(S.OUTPUT_ERROR, decision=ASK, approval=ask("unknown", by=ANN), soft=True, cause="truncated")
STOPPED_CARD = make_card(
    S.OUTPUT_ERROR, error=CardError("Not JSON.", "invalid_input", phase="validate", authority="model")
)


# ---------------------------------------------------------------- effect


@loop_over("card, effect", [
    (make_card(decision=ALLOW), "allow"),
    (make_card(decision=DENY), "deny"),
    (make_card(), "deny"),  # nothing was decided
    (REQUESTED, "ask"), (APPROVED, "allow"), (DENIED, "deny"), (LOST_CARD, "deny"), (STOPPED_CARD, "deny"),
    (LOST_CARD.replace(by_hand=CardManualOutcome("succeeded")), "allow"),
    (LOST_CARD.replace(soft=False), "allow"),  # a result followed
    (REQUESTED.replace(state=S.OUTPUT_ERROR, soft=True), "deny"),
    (APPROVED.replace(state=S.OUTPUT_AVAILABLE, approval=ask("succeeded")), "allow"),
    *((APPROVED.replace(approval=ask(state)), "allow") for state in ("approved", "claimed", "failed")),
    *((APPROVED.replace(approval=ask(state)), "deny") for state in ("expired", "cancelled", "superseded", "revoked")),
    *((make_card(decision=ALLOW, permit=CardPermit("p", state)), "deny") for state in ("void", "expired", "revoked")),
    *((make_card(decision=ALLOW, permit=CardPermit("p", way)), "allow") for way in ("issued", "claimed", "unknown")),
    (make_card(S.OUTPUT_DENIED, decision=ALLOW), "deny"),
    # The agent asks its user about a call that policy decided:
    (make_card(S.APPROVAL_REQUESTED, decision=ALLOW, approval=ask(opener="agent")), "allow"),
    (make_card(S.APPROVAL_REQUESTED, approval=ask(opener="agent")), "ask"),
])  # fmt: skip
def test_a_call_has_the_effect_of_what_happened_last(card: Card, effect: str) -> None:
    assert responses.get_effect(card) == effect == responses.build_decision(MEMORY, card)["decision"]


def test_an_approval_that_is_missing_allows_nothing() -> None:
    assert responses.get_approval_effect(make_card(decision=ALLOW)) == "deny"


# ---------------------------------------------------------------- who and why


@loop_over("card, expected", [
    (make_card(decision=ALLOW), ("rule", "no-rm", "rule", "Because: allow.")),
    (make_card(), ("gate_error", "", "gate_error", "")),
    (REQUESTED, ("rule", "no-rm", "rule", "Because: ask.")),
    (APPROVED, ("human", "ann", "approved", "A person approved.")),
    (APPROVED.replace(approval=ask("approved", by=ANN, reason="be quick")),
     ("human", "ann", "approved", "A person approved: be quick")),
    (APPROVED.replace(repair=EDITED),
     ("human", "ann", "approved", f"{TEXTS['edited']}.")),
    (DENIED, ("human", "ann", "approval_denied", "A person declined.")),
    (DENIED.replace(approval=ask("denied", by=ANN, reason="too risky")),
     ("human", "ann", "approval_denied", "A person declined: too risky")),
    (DENIED.replace(approval=ask("revoked", by=ANN), denied="Changed my mind.", denied_by=Actor("human", "ben")),
     ("human", "ben", "approval_denied", "Changed my mind.")),
    (DENIED.replace(approval=ask("expired"), denied_by=Actor("timeout")),
     ("timeout", "", "approval_expired", TEXTS["approval_expired"])),
    (DENIED.replace(approval=ask("denied", by=Actor("kill_switch", "ann"))),
     ("kill_switch", "ann", "kill_switch", TEXTS["kill_switch"])),
    (LOST_CARD, ("human", "ann", "lost", TEXTS["lost"])),
    (LOST_CARD.replace(approval=ask("expired", by=ANN)), ("timeout", "", "permit_expired", TEXTS["permit_expired"])),
    (LOST_CARD.replace(approval=ask("cancelled", by=ANN)), ("rule", "no-rm", "run_ended", TEXTS["run_ended"])),
    (LOST_CARD.replace(approval=ask("cancelled", by=ANN), soft=False), ("rule", "no-rm", "used", TEXTS["used"])),
    (LOST_CARD.replace(approval=ask("superseded", by=ANN)), ("rule", "no-rm", "superseded", TEXTS["superseded"])),
    (LOST_CARD.replace(approval=ask("cancelled", by=ANN), cause="superseded"),
     ("rule", "no-rm", "superseded", TEXTS["superseded"])),
    (make_card(decision=ALLOW, permit=CardPermit("p", "expired")),
     ("rule", "no-rm", "permit_expired", TEXTS["permit_expired"])),
    (make_card(decision=ALLOW, permit=CardPermit("p", "void")),
     ("rule", "no-rm", "run_ended", TEXTS["run_ended"])),
    (make_card(S.OUTPUT_DENIED, decision=DENY, denied_by=RULE), ("rule", "no-rm", "rule", "Because: deny.")),
    (STOPPED_CARD, ("validation", "", "invalid_input", "Not JSON.")),
    (STOPPED_CARD.replace(error=CardError("Veto.", "plugin_veto", authority="plugin", phase="before")),
     ("plugin", "", "plugin_veto", "Veto.")),
])  # fmt: skip
def test_a_response_names_who_decided_and_the_reason(card: Card, expected: tuple[str, str, str, str]) -> None:
    decision = responses.build_decision(MEMORY, card)
    by, reason = decision["by"], decision["reason"]
    assert (by["kind"], by["name"], reason["code"], reason["text"]) == expected
    assert by["ids"] == [by["name"]] * bool(by["name"])


@loop_over("card, suggestion", [
    (make_card(decision=DENY), "Try ls."), (REQUESTED, "Try ls."), (make_card(decision=ALLOW), ""), (APPROVED, ""),
    (STOPPED_CARD, ""),
])  # fmt: skip
def test_a_suggestion_is_for_calls_that_may_not_run_now(card: Card, suggestion: str) -> None:
    assert responses.build_decision(MEMORY, card)["reason"]["suggest"] == suggestion


# ---------------------------------------------------------------- the parts


def test_a_response_binds_its_answer_to_the_call_and_the_version() -> None:
    decision = responses.build_decision(MEMORY, REQUESTED, permit={"id": "p"}, attempt=2)
    assert (decision["v"], decision["run"], decision["call_id"], decision["tool"]) == (
        1, "r", "c", {"name": "bash", "source": "server"},
    )  # fmt: skip
    assert (decision["permit"], decision["attempt"], decision["decision_id"]) == ({"id": "p"}, 2, "dec_3-7-apr_1")
    assert {len(decision[name]) for name in ("args_sha256", "call_sha256")} == {64}
    assert responses.build_decision(MEMORY, REQUESTED.replace(input={"a": 2}))["args_sha256"] != decision["args_sha256"]
    allowed, undecided = (responses.build_decision(MEMORY, make_card(decision=part)) for part in (ALLOW, None))
    assert (allowed["decision_id"], allowed["permit"], allowed["approval"]) == ("dec_3-7-4", None, None)
    assert (undecided["decision_id"], undecided["policy"], undecided["would"]) == ("dec_3-7-0", None, [])


def test_the_digest_of_the_policy_is_that_of_the_active_version_only(policy: Any) -> None:
    def get_policy() -> Any:
        return responses.build_decision(MEMORY, make_card(decision=ALLOW))["policy"]

    assert get_policy() == {"version": 4, "sha256": ""}
    version = policy({"default": "allow"})
    assert get_policy() == {"version": 4, "sha256": ""}
    card = make_card(decision=CardDecision("allow", version=version.number))
    assert responses.build_decision(MEMORY, card)["policy"] == {"version": version.number, "sha256": version.sha256}


@loop_over("card, expected", [
    (make_card(decision=ALLOW), {}),
    (make_card(decision=ALLOW, repair=BY_SOURCE), {}),
    (APPROVED.replace(repair=EDITED), {}),
    (make_card(decision=ALLOW, repair="wrapped"), {"repair": {"method": "wrapped", "tool": "bash"}, "args": {"a": 1}}),
    (make_card(decision=DENY, repair="wrapped"), {"repair": {"method": "wrapped", "tool": "bash"}}),
])  # fmt: skip
def test_repaired_arguments_are_given_only_to_a_call_that_may_run(card: Card, expected: dict[str, Any]) -> None:
    decision = responses.build_decision(MEMORY, card)
    assert {name: decision[name] for name in ("repair", "args") if name in decision} == expected


def test_only_a_refused_input_lists_its_places() -> None:
    assert responses.build_decision(MEMORY, STOPPED_CARD)["places"] == []  # no tool was announced, so nothing is found
    for card in (APPROVED, STOPPED_CARD.replace(error=CardError("Veto.", "plugin_veto", phase="before"))):
        assert "places" not in responses.build_decision(MEMORY, card)


@loop_over("terms, need", [({}, 1), ({"need": 3}, 3)])
def test_the_approval_says_how_many_votes_it_has_and_needs(terms: dict[str, Any], need: int) -> None:
    card = REQUESTED.replace(approval=ask(have=1, terms=terms, expires_at=1_794_830_400.5))
    assert responses.build_approval(card) == {
        "id": "apr_1", "state": "pending", "need": need, "have": 1, "decide_by": "2026-11-16T12:00:00.500Z",
        "poll": "/api/v1/approvals/apr_1?wait=25", "twin": None,
    }  # fmt: skip
    assert responses.build_approval(make_card()) is None


@loop_over(
    "seconds, text", [(0, None), (0.0, None), (1.0, "1970-01-01T00:00:01.000Z"), (1.9996, "1970-01-01T00:00:01.999Z")]
)
def test_a_time_is_written_in_utc_with_milliseconds(seconds: float, text: str | None) -> None:
    assert responses.format_time(seconds) == text


@loop_over("state", ["approved", "claimed", "succeeded", "failed", "unknown", "cancelled", "expired", "superseded"])
def test_a_denial_is_never_explained_by_the_approval(state: str) -> None:
    approval = ask(state, by=ANN, reason="fine by me")
    card = make_card(S.OUTPUT_DENIED, decision=ASK, approval=approval, denied="", denied_by=Actor("host"))
    decision = responses.build_decision(MEMORY, card)
    assert decision["decision"] == "deny"
    assert "approved" not in decision["reason"]["text"].lower() and "fine by me" not in decision["reason"]["text"]
    assert decision["by"]["kind"] != "human"
