"""One session of the gateway: which calls reach the server, with which arguments, and what is reported of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, answer_in_order, plain
from tests.support.server import PATIENCE, until
from tests.support.tables import loop_over
from toolcards.client import Toolcards
from toolcards.client.common.canonical_json import digest
from toolcards.mcp import session as session_module
from toolcards.mcp.continuations import LONGEST_NOTE, MAX_ROUNDS
from toolcards.mcp.session import HeldCall, HeldCallResult, Session

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = {"name": "read", "description": "Reads a file.", "inputSchema": SCHEMA}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"read": "allow", "remove": "deny", "mail": "ask"}) as running:
        yield running


@pytest.fixture
def session(gate: Gate) -> Iterator[Session]:
    created = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="files")
    yield created
    created.end()


def make_call(number: Any, tool: Any, args: Any = ..., **params: Any) -> dict[str, Any]:
    arguments = {} if args is ... else {"arguments": args}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, **arguments} | params}


def hold(session: Session, request: Any) -> tuple[HeldCall, HeldCallResult]:
    """Return the call and what becomes of it."""
    call = session.begin_call(request)
    assert call is not None
    return call, session.decide(call, request)


def respond(session: Session, number: Any, **message: Any) -> None:
    session.note_message({"jsonrpc": "2.0", "id": number, **message})


def read_results(gate: Gate, count: int = 1) -> list[dict[str, Any]]:
    """Return the reports that the gate got, once there are so many."""
    return until(
        lambda: (
            reports if len(reports := [body for stage, body in gate.requests if stage == "result"]) >= count else None
        )
    )


def keep_waiting(stage: str, honest: Any) -> Answer | None:
    return plain({**honest, "decision": "ask"}) if stage == "poll" else None


# ---------------------------------------------------------------- decisions
def test_an_allowed_call_is_forwarded_as_it_is_and_its_result_is_reported(session: Session, gate: Gate) -> None:
    request = make_call(1, "read", {"path": "a"}, _meta={"progressToken": "t"})
    call, verdict = hold(session, request)
    assert verdict == HeldCallResult(request) and call.token == "t" and session.list_progress_tokens() == ["t"]
    assert session.has_open_calls()
    respond(session, 1, result={"content": [{"type": "text", "text": "done"}]})
    assert not session.has_open_calls() and session.list_progress_tokens() == []
    (result,) = read_results(gate)
    assert (result["outcome"], result["output"]) == ("ok", "done") and result["duration_ms"] >= 0
    respond(session, 1, result={"content": []})  # again
    session.end()
    assert len(read_results(gate)) == 1 and gate.stages()[-1] == "end"


@pytest.mark.parametrize(("number", "other"), [(7, "7"), (7, 7.0), ("7", 7)])
def test_a_list_under_another_spelling_of_its_id_is_the_list_that_clients_take(
    session: Session, number: Any, other: Any
) -> None:
    session.note_request({"id": number, "method": "tools/list", "params": {}})
    respond(session, other, result={"tools": [READ]})
    assert session.tools.find("read") == READ


def test_a_call_is_canceled_under_another_spelling_of_its_id(session: Session) -> None:
    call = session.begin_call(make_call(7, "read", {}))
    session.cancel(7.0)
    assert call is not None and call.is_cancelled


def test_a_call_without_arguments_has_none(session: Session, gate: Gate) -> None:
    _, verdict = hold(session, make_call(1, "read"))
    assert verdict.request is not None and verdict.request["params"] == {"name": "read", "arguments": {}}
    assert [call.args for call in gate.calls] == [{}]


def test_a_denied_call_is_answered_and_forgotten(session: Session, gate: Gate) -> None:
    _, verdict = hold(session, make_call("x", "remove", {}))
    assert verdict.request is None and verdict.answer is not None
    assert verdict.answer["id"] == "x" and verdict.answer["result"]["_meta"]["toolcards"]["code"] == "rule_deny"
    assert "The test says deny" in verdict.answer["result"]["content"][0]["text"]
    assert session.begin_call(make_call("x", "read")) is not None  # its id is free


def test_the_gate_is_asked_about_the_tool_of_this_server_with_its_definition(session: Session, gate: Gate) -> None:
    session.note_request({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "desk"}}})
    session.note_request({"id": 1, "method": "tools/list", "params": {}})
    respond(session, 1, result={"tools": [READ]})
    assert not session.tools.is_stale
    hold(session, make_call(2, "read", {"path": "a"}))
    body = gate.requests[0][1]
    assert body["agent_path"] == ["desk"] and body["tools"] == [READ] and body["run"] == session.run
    assert body["tool"]["source"] == "files" and len(body["tool"]["schema_sha256"]) == 64
    session.note_message([{"method": "notifications/tools/list_changed"}])
    assert session.tools.is_stale


@loop_over(("name", "args", "code"), [
    (5, {}, "invalid_input"), (None, {}, "invalid_input"), (["read"], {}, "invalid_input"),
    ("read", [1], "invalid_input"),
    ("read", "text", "invalid_input"), ("read", None, "invalid_input"), ("elicitation/create", {}, "invalid_input"),
    ("read\0", {}, "gate_error"), ("read", {"a": 2**60}, "gate_error"), ("read", {"a": "\ud800"}, "gate_error"),
])  # fmt: skip
def test_what_cannot_be_judged_is_denied_without_a_question(name: Any, args: Any, code: str) -> None:
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        _, verdict = hold(session, make_call(1, name, args))
        assert verdict.answer is not None and verdict.answer["result"]["_meta"]["toolcards"]["code"] == code
        assert gate.calls == [] and not session.has_open_calls()
        session.end()


def test_without_a_gate_nothing_is_forwarded() -> None:
    session = Session(Toolcards("http://127.0.0.1:9", "key", timeout=1), server="files")
    _, verdict = hold(session, make_call(1, "read", {}))
    assert verdict.request is None and verdict.answer is not None and verdict.answer["result"]["isError"]
    session.end()


def test_a_fault_on_the_way_is_an_answer_too(session: Session, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, the client would wait for ever. A permit that was claimed is reported as not used."""

    def fail(*args: Any) -> Any:
        raise RuntimeError("no idea")

    gate.edited = {"path": 5}
    monkeypatch.setattr(session_module, "find_trouble", fail)
    _, verdict = hold(session, make_call(1, "mail", {"path": "a"}))
    assert verdict.answer is not None and "no idea" in verdict.answer["result"]["content"][0]["text"]
    assert [result["outcome"] for result in read_results(gate)] == ["aborted"]


# ---------------------------------------------------------------- edits
def test_a_persons_edit_is_what_the_server_gets(session: Session, gate: Gate) -> None:
    gate.edited = {"to": "you"}
    _, verdict = hold(session, make_call(1, "mail", {"to": "me"}, _meta={"x": 1}))
    assert verdict.changed and verdict.request is not None
    assert verdict.request["params"] == {"name": "mail", "arguments": {"to": "you"}, "_meta": {"x": 1}}


@loop_over("edited", [{"path": 5}, {}, {"path": "a", "more": 1}, [1], "text"], ids=str)
def test_an_edit_that_the_tool_does_not_take_does_not_run(edited: Any) -> None:
    with Gate({"read": "ask"}, edited=edited) as gate:
        session = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="files")
        session.tools.add_page({}, {"tools": [READ]})
        _, verdict = hold(session, make_call(1, "read", {"path": "a"}))
        assert verdict.request is None and verdict.answer is not None
        assert verdict.answer["result"]["_meta"]["toolcards"]["code"] == "invalid_input"
        assert [result["error"]["phase"] for result in read_results(gate)] == ["validate"]
        session.end()


# ---------------------------------------------------------------- ids
def test_of_two_open_calls_with_one_id_the_second_is_refused(session: Session) -> None:
    call = session.begin_call(make_call(1, "read"))
    assert call is not None and session.begin_call(make_call(1, "remove")) is None
    assert session.begin_call(make_call("1", "read")) is not None  # another id
    session.decide(call, make_call(1, "read"))
    assert session.begin_call(make_call(1, "read")) is None  # the server runs it
    respond(session, 1, result={})
    assert session.begin_call(make_call(1, "read")) is not None


# ---------------------------------------------------------------- results
@loop_over(("result", "output"), [
    ({"content": [{"type": "text", "text": "done"}]}, "done"),
    ({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"n": 1}},
     {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"n": 1}}),
    ({"content": [{"type": "text", "text": '{"n": 1.0}'}], "structuredContent": {"n": 1}}, {"n": 1}),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
    ({"content": [{"type": "image", "data": "x"}]}, [{"type": "image", "data": "x"}]), ({"content": []}, []),
    ({"content": "text"}, "text"),
    ({"toolResult": 5, "_meta": {"x": 1}}, {"toolResult": 5}), ({}, {}),
    ({"content": [{"type": "text", "text": 5}]}, [{"type": "text", "text": 5}]),
    ({"structuredContent": None}, None), ({"content": [float("inf")]}, ["inf"]),
])  # fmt: skip
def test_a_result_is_reported_as_the_tool_gave_it(result: Any, output: Any) -> None:
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        hold(session, make_call(1, "read"))
        respond(session, 1, result=result)
        (report,) = read_results(gate)
        assert (report["outcome"], report["output"]) == ("ok", output)
        session.end()


def test_a_picture_next_to_an_error_is_reported_with_it() -> None:
    content = [{"type": "text", "text": "no button"}, {"type": "image", "data": "eA==", "mimeType": "image/png"}]
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        hold(session, make_call(1, "click"))
        respond(session, 1, result={"isError": True, "content": content})
        (report,) = read_results(gate)
        assert (report["error"]["message"], report["output"]) == ("no button", content)
        session.end()


@loop_over(("message", "code", "text"), [
    ({"error": {"code": -32601, "message": "no"}}, "no_such_tool", "no"),
    ({"error": {"code": -32602, "message": "no"}}, "invalid_input", "no"),
    ({"error": {"code": -32700}}, "protocol", "Error -32700"),
    ({"error": {"code": 7, "message": "x" * 9000}}, "tool_failed", "x" * 8000),
    ({"error": {"code": "odd", "message": "no"}}, "tool_failed", "no"), ({"error": "odd"}, "tool_failed", "Error None"),
    ({"result": {"isError": True, "content": [{"type": "text", "text": "no"}]}}, "tool_reported", "no"),
    ({"result": {"isError": True}}, "tool_reported", ""),
    ({"result": {"isError": True, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}},
     "tool_reported", "a\nb"),
])  # fmt: skip
def test_an_error_of_the_server_is_reported_as_one(message: Any, code: str, text: str) -> None:
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        hold(session, make_call(1, "read"))
        respond(session, 1, **message)
        (report,) = read_results(gate)
        assert (report["outcome"], report["error"]["code"], report["error"]["message"]) == ("error", code, text)
        session.end()


@loop_over(
    "message",
    [
        None,
        5,
        "text",
        [],
        [None, [5]],
        {},
        {"id": 9, "result": {}},
        {"id": "1", "result": {}},
        {"method": "ping", "id": 1},
    ],
)
def test_other_messages_of_the_server_end_no_call(message: Any) -> None:
    session = Session(Toolcards("http://127.0.0.1:9", "key", timeout=1), server="files")
    call = session.begin_call(make_call(1, "read"))
    assert call is not None
    call.forwarded = {"name": "read", "arguments": {}}
    session.note_message(message)
    assert session.has_open_calls()


def test_a_batch_of_responses_ends_its_calls_and_a_deep_one_does_no_harm(session: Session, gate: Gate) -> None:
    for number in (1, 2):
        hold(session, make_call(number, "read", {"path": str(number)}))
    session.note_message([{"id": 1, "result": {}}, {"id": 2, "error": {}}])
    assert not session.has_open_calls() and len(read_results(gate, 2)) == 2
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    session.note_message(deep)


def test_a_response_before_the_decision_ends_nothing(session: Session) -> None:
    """The server has not got the request: it guesses."""
    call = session.begin_call(make_call(1, "read"))
    respond(session, 1, result={"content": []})
    assert session.begin_call(make_call(1, "read")) is None and call is not None


# ---------------------------------------------------------------- calls that the server continues
def continue_call(session: Session, state: str = "s1", args: Any = None) -> HeldCall:
    """Let the server ask for more about an allowed call."""
    call, verdict = hold(session, make_call(1, "read", {"path": "a"} if args is None else args))
    assert verdict.request is not None
    respond(session, 1, result={"resultType": "input_required", **({"requestState": state} if state else {})})
    return call


ANSWERS = {"inputResponses": {"name": {"action": "accept"}}}


def test_answers_that_no_card_shows_whole_are_not_sent(session: Session, gate: Gate) -> None:
    continue_call(session)
    answers = {"inputResponses": {"name": {"action": "accept", "content": "x" * LONGEST_NOTE}}}
    _, verdict = hold(session, make_call(2, "read", {"path": "a"}, requestState="s1", **answers))
    assert verdict.request is None and "no one could read them all" in json.dumps(verdict.answer)
    assert len(gate.calls) == 1


def test_each_request_of_a_call_that_the_server_continues_is_judged_and_shows_its_answers(
    session: Session, gate: Gate
) -> None:
    first = continue_call(session)
    request = make_call(2, "read", {"path": "a"}, requestState="s1", **ANSWERS)
    second, verdict = hold(session, request)
    assert verdict == HeldCallResult(request) and second.id != first.id and len(gate.calls) == 2
    question = [body for stage, body in gate.requests if stage == "decide"][1]
    assert '"action": "accept"' in question["agent_note"] and question["args"] == {"path": "a"}
    respond(session, 2, result={"content": []})
    assert [report["outcome"] for report in read_results(gate, 2)] == ["ok", "ok"]
    gate.effects["read"] = "deny"  # as by the kill switch
    assert hold(session, make_call(3, "read", {"path": "a"}, requestState="s1", **ANSWERS))[1].answer is not None


def test_a_call_is_continued_a_limited_number_of_times(session: Session, gate: Gate) -> None:
    continue_call(session, state="s0")
    for number in range(MAX_ROUNDS):
        _, verdict = hold(session, make_call(number + 2, "read", {"path": "a"}, requestState=f"s{number}"))
        assert verdict.request is not None
        state = f"s{number + 1}"
        respond(session, number + 2, result={"resultType": "input_required", "requestState": state})
    _, verdict = hold(session, make_call(90, "read", {"path": "a"}, requestState=f"s{MAX_ROUNDS}"))
    assert verdict.request is None and len(gate.calls) == 1 + MAX_ROUNDS


@loop_over("changes", [
    {"name": "write"}, {"arguments": {"path": "/etc"}}, {"arguments": {"path": "a", "more": 1}}, {"requestState": "s2"},
    {"requestState": ""}, {"arguments": {"path": 2**60}}, {"requestState": 5},
])  # fmt: skip
def test_a_state_is_no_permission_for_another_call(changes: Any) -> None:
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        continue_call(session)
        gate.effects.update(read="deny", write="deny")
        request = make_call(2, "read", {"path": "a"}, requestState="s1")
        _, verdict = hold(session, request | {"params": request["params"] | changes})
        assert verdict.request is None and verdict.answer is not None
        session.end()


def test_an_edited_call_is_asked_about_again_when_it_is_continued(session: Session, gate: Gate) -> None:
    gate.edited = {"to": "you"}
    _, verdict = hold(session, make_call(1, "mail", {"to": "me"}))
    assert verdict.request is not None
    respond(session, 1, result={"resultType": "input_required", "requestState": "s1"})
    _, verdict = hold(session, make_call(2, "mail", {"to": "me"}, requestState="s1"))
    assert verdict.request is not None and verdict.request["params"]["arguments"] == {"to": "you"}
    assert len(gate.calls) == 2


# ---------------------------------------------------------------- the end of a call
def test_a_call_that_is_canceled_while_a_person_is_asked_never_runs(session: Session, gate: Gate) -> None:
    gate.tamper = keep_waiting
    request = make_call(1, "mail", {})
    call = session.begin_call(request)
    assert call is not None
    results: list[HeldCallResult] = []
    decider = threading.Thread(target=lambda: results.append(session.decide(call, request)))
    decider.start()
    until(lambda: "poll" in gate.stages())
    assert session.cancel(1) is False  # the server does not know it
    decider.join(PATIENCE)
    assert results == [HeldCallResult()] and "withdraw" in gate.stages() and "claim" not in gate.stages()
    assert session.cancel(1) is True  # unknown here: the server may know it


def test_a_permit_that_was_claimed_for_a_canceled_call_is_reported_as_unused(session: Session, gate: Gate) -> None:
    request = make_call(1, "read", {})
    call = session.begin_call(request)
    assert call is not None

    def cancel_during_claim(stage: str, honest: Any) -> None:
        if stage == "claim":
            call.cancel()

    gate.tamper = cancel_during_claim
    assert session.decide(call, request) == HeldCallResult()
    assert [report["outcome"] for report in read_results(gate)] == ["aborted"]


def test_a_call_that_the_server_runs_is_canceled_there(session: Session, gate: Gate) -> None:
    hold(session, make_call(1, "read", {}))
    assert session.cancel(1) is True and not session.has_open_calls()
    respond(session, 1, result={"content": []})  # too late
    session.end()
    assert [report["outcome"] for report in read_results(gate)] == ["aborted"]


@loop_over(("reason", "outcome"), [("", "aborted"), ("The server answered 500.", "error")])
def test_a_call_whose_client_or_server_has_gone_is_reported(reason: str, outcome: str) -> None:
    with Gate() as gate:
        session = Session(Toolcards(gate.url, "key"), server="files")
        call, _ = hold(session, make_call(1, "read", {}))
        session.abandon(call, reason)
        (report,) = read_results(gate)
        assert report["outcome"] == outcome and report.get("error", {}).get("message", "") == reason
        session.end()


def test_the_end_withdraws_what_waits_and_reports_what_runs(session: Session, gate: Gate) -> None:
    gate.tamper = keep_waiting
    hold(session, make_call(1, "read", {}))
    request = make_call(2, "mail", {})
    call = session.begin_call(request)
    assert call is not None
    decider = threading.Thread(target=session.decide, args=(call, request))
    decider.start()
    until(lambda: "poll" in gate.stages())
    session.end()
    decider.join(PATIENCE)
    assert "withdraw" in gate.stages() and [report["outcome"] for report in read_results(gate)] == ["aborted"]
    assert not session.has_open_calls()


def test_a_results_digest_is_of_what_ran(session: Session, gate: Gate) -> None:
    hold(session, make_call(1, "read", {"path": "a"}))
    assert next(body for stage, body in gate.requests if stage == "claim")["args_sha256"] == digest({"path": "a"})


def test_a_call_without_an_answer_of_the_gate_is_given_up() -> None:
    """The gate may have opened a question, which no one waits for."""
    with Gate({"ask": "ask"}) as gate:
        gate.tamper = answer_in_order(Answer([]), stage="decide")
        session = Session(Toolcards(gate.url, "key", timeout=PATIENCE, keep_alive=False), server="files")
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
        call = session.begin_call(request)
        assert call is not None and session.decide(call, request).request is None
        until(lambda: "result" in gate.stages())
        report = next(body for stage, body in gate.requests if stage == "result")
        assert (report["outcome"], report["side_effects"]) == ("aborted", "none")
        session.end()
