"""The server's answers: anything but a clear allow for exactly this call is a deny.

The clients as a whole are tested against bad answers in test_bad_answers.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.fake_gate import Call
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import call_digest, digest
from toolcards.client.decisions.answers import (
    LONGEST_TEXT,
    Decision,
    Denied,
    check_answer,
    check_claim,
    deny_unasked,
    get_allowed_tool,
    make_denial,
)
from toolcards.client.decisions.question import CallRequest, Tool
from toolcards.client.transport.http_client import Unreachable

ARGS = {"command": "ls"}
OTHER = {"command": "rm -rf /"}
QUESTION = CallRequest.about("r1", "c1", {"name": "bash", "source": "box"}, ARGS, offered_names=["bash", "sh"])


def make_call(effect: str = "allow", **more: Any) -> Call:
    """Return the call as an honest gate holds it."""
    approval = {"approval": "apr_1"} if effect == "ask" else {}
    return Call("r1", "c1", 1, "bash", "box", ARGS, effect, "prm_1", **approval, **more)


HONEST = {effect: make_call(effect).decision() for effect in ("allow", "deny", "ask")}


def rename_tool(answer: Any, name: str, source: str = "box") -> dict[str, Any]:
    """Return an allow for another tool, with honest digests."""
    tool = {"tool": {"name": name, "source": source}}
    return answer | tool | {"call_sha256": call_digest(ARGS, name=name, source=source)}


def test_a_correct_answer_is_accepted() -> None:
    allow, deny, ask = (check_answer(HONEST[effect], QUESTION) for effect in ("allow", "deny", "ask"))
    assert (allow.allowed, allow.waiting, allow.permit, allow.code) == (True, False, "prm_1", "rule_allow")
    assert (allow.edited, allow.args, allow.tool, allow.by, allow.attempt) == (False, None, "", "rule", 1)
    assert allow.question is QUESTION and allow.args_sha256 == QUESTION.args_sha256
    assert (deny.allowed, deny.waiting, deny.text, deny.permit) == (False, False, "The test says deny.", "")
    assert (ask.allowed, ask.waiting, ask.approval) == (False, True, "apr_1")


def test_an_edit_is_what_runs_and_its_digests_bind_it() -> None:
    answer = make_call("ask", edited=OTHER).decision("allow")
    decision = check_answer(answer, QUESTION, "poll")
    assert decision.allowed and decision.edited and decision.args == OTHER
    assert not check_answer(answer | {"args": ARGS}, QUESTION, "poll").allowed
    assert not check_answer({k: v for k, v in answer.items() if k != "args"}, QUESTION, "poll").allowed
    null = make_call().decision() | {
        "args": None, "args_sha256": digest(None), "call_sha256": call_digest(None, name="bash", source="box"),
    }  # fmt: skip
    assert check_answer(null, QUESTION).edited  # an edit to null is an edit


@loop_over(("name", "source", "allowed"), [
    ("bash", "box", True), ("sh", "box", True), ("wipe", "box", False), ("bash", "", False), ("bash", "other", False),
    ("Bash", "box", False),
])  # fmt: skip
def test_a_repair_may_name_only_a_tool_that_was_offered(name: str, source: str, allowed: bool) -> None:
    decision = check_answer(rename_tool(HONEST["allow"], name, source), QUESTION)
    assert decision.allowed is allowed
    if allowed:
        assert decision.tool == ("" if name == "bash" else name) and get_allowed_tool(decision) == Tool(name, source)


def test_a_tool_without_a_server_may_get_one() -> None:
    question = CallRequest.about("r1", "c1", "bash", ARGS)
    assert check_answer(rename_tool(HONEST["allow"], "bash", "anywhere"), question).allowed


ODD = st.sampled_from([
    None, True, False, 0, 1, 1.0, 2, -1, "", "1", "c1 ", "C1", "allow", "ALLOW", "0" * 64, [], {}, [1], {"id": 1},
    {"id": ""}, {"name": "wipe", "source": "box"},
    {"name": "bash"}, {"name": "bash", "source": 1}, {"name": ["bash"], "source": "box"}, {"state": "claimed"},
])  # fmt: skip
BINDING_FIELDS = ["decision", "run", "call_id", "attempt", "args_sha256", "call_sha256", "tool", "args"]


@draw(400)
@given(st.sampled_from(BINDING_FIELDS), ODD, st.sampled_from(["decision", "poll", "message"]))
def test_an_allow_with_one_other_field_is_a_deny(field: str, value: Any, kind: str) -> None:
    answer = HONEST["allow"] | {field: value}
    decision = check_answer(answer, QUESTION, kind)
    is_same = (
        field in HONEST["allow"] and value == HONEST["allow"][field] and type(value) is type(HONEST["allow"][field])
    )
    assert decision.allowed == is_same
    if not is_same and decision.by == "client":
        assert decision.text.startswith("The gate's answer is not valid") and decision.call_id == "c1"


@loop_over("field", ["decision", "run", "call_id", "attempt", "args_sha256"])
def test_an_allow_without_a_field_that_binds_it_is_a_deny(field: str) -> None:
    assert not check_answer({k: v for k, v in HONEST["allow"].items() if k != field}, QUESTION).allowed


@loop_over("field", ["tool", "call_sha256", "by", "reason", "permit", "approval", "v"])
def test_an_allow_may_leave_out_what_does_not_bind_it(field: str) -> None:
    assert check_answer({k: v for k, v in HONEST["allow"].items() if k != field}, QUESTION).allowed


@loop_over(
    "answer", [None, True, [], "allow", 1, {}, {"decision": ["allow"]}, {"decision": {"allow": 1}}, [HONEST["allow"]]]
)
def test_what_is_no_decision_is_a_deny(answer: Any) -> None:
    decision = check_answer(answer, QUESTION)
    assert (decision.effect, decision.code, decision.by) == ("deny", "gate_error", "client")


@loop_over(("changes", "effect"), [
    ({"attempt": 2}, "deny"), ({"args_sha256": "0" * 64}, "deny"),
    ({"approval": None, "permit": [], "by": "rule", "reason": 5}, "deny"),
    ({"tool": 5, "args": OTHER}, "deny"),
])  # fmt: skip
def test_a_deny_counts_whatever_else_it_holds(changes: Any, effect: str) -> None:
    decision = check_answer(HONEST["deny"] | changes, QUESTION)
    assert decision.effect == effect and decision.by != "client"


@loop_over(("changes", "kind", "waiting"), [
    ({}, "decision", True), ({"approval": None}, "decision", False), ({"approval": {"id": ""}}, "decision", False),
    ({"approval": {"id": 5}}, "decision", False), ({"approval": "apr_1"}, "message", False),
    ({"attempt": 2}, "poll", False),
    ({"args_sha256": "0" * 64}, "decision", False), ({"args_sha256": "0" * 64}, "message", False),
    ({"args_sha256": "0" * 64}, "poll", True),  # an edit that can still be undone
    ({"args_sha256": "0" * 64, "repair": {}}, "decision", True), ({"run": "r2"}, "poll", False),
])  # fmt: skip
def test_a_question_has_an_address_and_is_about_this_input(changes: Any, kind: str, waiting: bool) -> None:
    assert check_answer(HONEST["ask"] | changes, QUESTION, kind).waiting is waiting


def test_a_long_reason_is_cut_for_the_model() -> None:
    decision = check_answer(HONEST["deny"] | {"reason": {"code": "x", "text": "y" * 100_000}}, QUESTION)
    assert decision.text == "y" * LONGEST_TEXT


# ---------------------------------------------------------------- claims
def claim(answer: Any, *, edited: Any = None, tool: str = "bash") -> Decision:
    """Return the result of an honest allow that is claimed with this answer."""
    allow = make_call("ask", edited=edited).decision("allow") if edited is not None else HONEST["allow"]
    allow = rename_tool(allow, tool) if tool != "bash" else allow
    decision = check_answer(allow, QUESTION, "poll")
    assert decision.allowed
    return check_claim(answer, decision)


def test_a_correct_claim_returns_the_arguments_and_uses_the_permit() -> None:
    result = claim(make_call().claim())
    assert result.allowed and result.args == ARGS and result.permit == ""
    result = claim(make_call("ask", edited=OTHER).claim(), edited=OTHER)
    assert result.allowed and result.args == OTHER


CLAIM = make_call().claim()


@draw(300)
@given(
    st.sampled_from(["permit", "state", "call_id", "run", "attempt", "args_sha256", "call_sha256", "tool", "args"]), ODD
)
def test_a_claim_with_one_other_field_is_a_deny(field: str, value: Any) -> None:
    if value == CLAIM[field] and type(value) is type(CLAIM[field]):
        return
    result = claim(CLAIM | {field: value})
    assert (result.effect, result.by) == ("deny", "client") and "claim" in result.text


@loop_over(("field", "allowed"), [
    ("permit", False), ("state", False), ("call_id", False), ("args_sha256", False), ("args", False), ("run", True),
    ("attempt", True),
    ("call_sha256", True), ("tool", True),
])  # fmt: skip
def test_a_claim_must_confirm_permit_call_and_arguments(field: str, allowed: bool) -> None:
    assert claim({k: v for k, v in CLAIM.items() if k != field}).allowed is allowed


def test_a_claim_of_other_arguments_with_correct_digests_is_denied() -> None:
    assert not claim(make_call("ask", edited=OTHER).claim()).allowed
    assert not claim(CLAIM, edited=OTHER).allowed


def test_a_claim_is_for_the_tool_of_the_allow_and_not_of_the_question() -> None:
    assert not claim(CLAIM, tool="sh").allowed
    assert claim(rename_tool(CLAIM, "sh"), tool="sh").allowed
    assert not claim(rename_tool(CLAIM, "sh")).allowed


@loop_over("answer", [None, [], "claimed", {}, {"state": ["claimed"]}])
def test_what_is_no_claim_is_a_deny(answer: Any) -> None:
    assert not claim(answer).allowed


def test_an_answer_is_never_changed() -> None:
    answer = make_call("ask", edited=OTHER).decision("allow")
    before = copy.deepcopy(answer)
    check_claim(make_call("ask", edited=OTHER).claim(), check_answer(answer, QUESTION))
    assert answer == before


# ---------------------------------------------------------------- denies of the client
def test_a_deny_says_why_the_question_could_not_be_submitted() -> None:
    too_large = deny_unasked(Unreachable("The body is too large.", 413), "c1")
    assert (too_large.effect, too_large.code) == ("deny", "invalid_args") and "The body is too large." in too_large.text
    away = deny_unasked(Unreachable("later", 503), "c1")
    assert (away.code, away.call_id, away.attempt) == ("gate_error", "c1", 1) and "gave no decision" in away.text
    assert deny_unasked(ValueError("odd"), "c1").code == "gate_error"


def test_a_denied_call_raises_with_the_reason_for_the_model() -> None:
    assert str(Denied(make_denial("Not in this folder."))) == "Not in this folder."
    error = Denied(make_denial(""))
    assert str(error) == "This call was denied." and error.decision.by == "client"
    with pytest.raises(Denied, match="denied"):
        raise error
