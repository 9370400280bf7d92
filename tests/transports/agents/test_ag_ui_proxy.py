"""AG-UI clients reach their agent through us: nothing changes on the way, and answers find the agent."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.support import gating
from tests.support.ag_ui_agent import (
    FakeAgent,
    build_interrupts,
    build_run_start,
    call,
    finished,
    post,
    requesting,
    sse,
)
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, upstream: FakeAgent) -> Iterator[Server]:
    names = f"planner={upstream.url},absent=http://127.0.0.1:9/agui"
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=names, grace=1) as running:
        gating.activate(running, {"v": 1, "default": "ask", "rules": []})
        yield running


def vote(server: Server, run: str, call_id: str, decision: str, **fields: str) -> None:
    one = until(lambda: gating.calls(server, run).get(call_id))
    fields |= {"rev": str(one["rev"]), "args_sha256": one["approval"]["args_sha256"]}
    status, page = Voter(server).post(
        f"/approvals/{one['approval']['id']}/vote", page="/approvals/", decision=decision, **fields
    )
    assert status == 200, page


@pytest.mark.slow
def test_the_stream_goes_by_unchanged_and_its_calls_are_cards(server: Server, upstream: FakeAgent) -> None:
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "done"}
    upstream.reset(build_run_start("plain"), *call("c"), result, finished("plain"))
    status, outcome = post(server, "plain", headers={"X_Upstream_Authorization": "Bearer theirs", "X_Tenant": "blue"})
    assert (status, outcome) == (200, b"".join(map(sse, upstream.events)).decode())
    card = gating.calls(server, "plain")["c"]
    assert (card["state"], card["agent_path"], card["output"]) == ("output-available", ["planner"], "done")
    body, headers = upstream.requests[0]
    assert (headers["authorization"], headers["x-tenant"]) == ("Bearer theirs", "blue")
    assert body["threadId"] == "plain" and server.key not in json.dumps(headers)


def test_cards_move_while_the_stream_is_open_and_a_client_that_leaves_ends_the_run(
    server: Server, upstream: FakeAgent
) -> None:
    upstream.reset(build_run_start("leaves"), *call("c"), "hold")
    connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/ag-ui/planner", json.dumps({"threadId": "leaves", "runId": "1"}), headers)
    answer = connection.getresponse()
    answer.readline()
    until(lambda: gating.calls(server, "leaves").get("c", {}).get("state") == "input-available")
    answer.close()
    connection.close()
    card = until(lambda: (value := gating.calls(server, "leaves")["c"])["state"] == "output-error" and value)
    assert (card["cause"], server.get("/api/v1/runs/leaves")["status"]) == ("aborted", "aborted")
    assert upstream.hang_up.wait(PATIENCE)


def test_a_stream_ends_once_its_key_is_revoked(server: Server, upstream: FakeAgent) -> None:
    key = server.manage("agentkey", "create", "short-lived").stdout.split()[-1]
    upstream.reset(build_run_start("revoked"), *call("c"), "hold")
    connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/ag-ui/planner", json.dumps({"threadId": "revoked", "runId": "1"}), headers)
    answer = connection.getresponse()
    answer.readline()
    server.manage("agentkey", "revoke", "short-lived")
    with pytest.raises((http.client.HTTPException, OSError)):
        answer.read()
    connection.close()
    assert upstream.hang_up.wait(PATIENCE)


def test_an_agent_that_breaks_off_leaves_a_truncated_run(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("broken"), *call("c"))
    upstream.breaks_off = True
    with pytest.raises((http.client.HTTPException, OSError)):
        post(server, "broken")
    until(lambda: server.get("/api/v1/runs/broken")["status"] == "truncated")


def test_only_an_admin_says_where_agents_are(server: Server, upstream: FakeAgent) -> None:
    upstream.reset()
    for name in ("stranger", "http:%2F%2F127.0.0.1:80", upstream.url.replace("/", "%2F")):
        assert post(server, "x", name)[0] == 404
    assert server.request("POST", "/api/v1/ag-ui/planner", {"threadId": "x"}, key=None)[0] == 401
    assert post(server, "")[0] == 400
    assert upstream.requests == []


def test_what_the_agent_refuses_comes_back_as_it_is(server: Server, upstream: FakeAgent) -> None:
    upstream.reset({"nope": True})
    upstream.status = 422
    assert post(server, "refused")[0] == 422
    run = until(lambda: (value := server.get("/api/v1/runs/refused"))["ended_at"] and value)
    assert (run["status"], run["reason"]) == ("error", "The agent answered with status 422.")


def test_an_event_that_is_too_long_goes_by_and_the_others_are_recorded(server: Server, upstream: FakeAgent) -> None:
    text = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x" * 2_000_000}
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "done"}
    upstream.reset(build_run_start("long"), *call("c"), text, result, finished("long"))
    assert post(server, "long") == (200, b"".join(map(sse, upstream.events)).decode())
    run = server.get("/api/v1/runs/long")
    assert (run["status"], run["skipped"]["kinds"]) == ("finished", {"too long": 1})
    assert gating.calls(server, "long")["c"]["state"] == "output-available"


def test_names_of_types_and_encodings_are_read_in_any_case(server: Server, upstream: FakeAgent) -> None:
    headers = {"Content_Type": "Text/Event-Stream; charset=UTF-8", "Content_Encoding": "Identity"}
    upstream.reset(build_run_start("case"), *call("c"), finished("case"), **headers)
    assert post(server, "case")[0] == 200
    assert "c" in gating.calls(server, "case") and server.get("/api/v1/runs/case")["status"] == "finished"


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        (
            {"Content_Type": "application/vnd.ag-ui.event+proto"},
            "is no event stream (application/vnd",
        ),
        ({"Content_Type": "text/event-stream", "Content_Encoding": "gzip"}, "is encoded (gzip)"),
    ],
)
def test_what_cannot_be_read_here_goes_by_untouched(
    server: Server, upstream: FakeAgent, headers: dict[str, str], fault: str
) -> None:
    """Protobuf, the other standard binding: four bytes of length, a message; and what was compressed unasked."""
    pieces = [
        len(message).to_bytes(4, "big") + message for message in (b"\x08\x01\xff\xfe data: {}\n\n", bytes(range(256)))
    ]
    upstream.reset(*pieces, **headers)
    connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=PATIENCE)
    try:
        text = json.dumps({"threadId": fault, "runId": "b-1", "messages": []})
        connection.request(
            "POST",
            "/api/v1/ag-ui/planner",
            text,
            {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"".join(pieces))
        by_name = {name.replace("_", "-"): answer.headers[name.replace("_", "-")] for name in headers}
        assert by_name == {name.replace("_", "-"): value for name, value in headers.items()}
    finally:
        connection.close()
    until(lambda: fault in str(server.get(f"/api/v1/runs/{quote(fault, safe='')}")["reason"]))


def test_an_answer_given_in_the_clients_chat_is_the_hosts(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(
        build_run_start("chat"), *call("c1"), *call("c2"), *call("c3"), build_interrupts("chat", "c1", "c2", "c3")
    )
    post(server, "chat")
    assert server.get("/api/v1/runs/chat")["status"] == "waiting"
    upstream.reset(build_run_start("chat"), finished("chat"))
    resume = [
        {"interruptId": "int-c1", "status": "resolved", "payload": {"approved": True, "editedArgs": {"path": "/b"}}},
        {"interruptId": "int-c2", "status": "resolved", "payload": {"approved": False, "reason": "not today"}},
        {"interruptId": "int-c3", "status": "cancelled"},
    ]
    post(server, "chat", resume=resume)
    cards = gating.calls(server, "chat")
    assert {name: card["approval"]["by"]["kind"] for name, card in cards.items()} == dict.fromkeys(cards, "host")
    assert (cards["c1"]["approval"]["state"], cards["c1"]["input"]) == ("claimed", {"path": "/b"})
    assert (cards["c2"]["state"], cards["c2"]["denied"]["reason"]) == ("output-denied", "not today")
    assert cards["c3"]["state"] == "output-denied"
    payloads = {entry["interruptId"]: entry["payload"] for entry in upstream.requests[0][0]["resume"]}
    assert payloads["int-c1"] == {"approved": True, "editedArgs": {"path": "/b"}}
    assert payloads["int-c2"] == {"approved": False, "reason": "not today"}


def test_the_results_of_client_side_tools_come_in_the_next_request(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("client"), *call("call_0", "ask_user"), *call("c2", "ask_user"), finished("client"))
    post(server, "client")
    assert {card["state"] for card in gating.calls(server, "client").values()} == {"input-available"}
    start = {**call("call_0", "ask_user")[0], "parentMessageId": "m2"}
    again = {**build_run_start("client"), "runId": "client-2"}
    upstream.reset(again, start, *call("call_0", "ask_user", {"n": 2})[1:], {**finished("client"), "runId": "client-2"})
    assistant = {"id": "m1", "role": "assistant", "toolCalls": []}
    first = {"id": "t1", "role": "tool", "toolCallId": "call_0", "content": '{"answer": "yes"}'}
    second = {"id": "t2", "role": "tool", "toolCallId": "c2", "content": "no camera", "error": "no camera"}
    history = [assistant, first, second]
    post(server, "client", runId="client-2", messages=history)
    upstream.reset({**build_run_start("client"), "runId": "client-3"}, {**finished("client"), "runId": "client-3"})
    third = {"id": "t3", "role": "tool", "toolCallId": "call_0", "content": "plain"}
    post(server, "client", runId="client-3", messages=[*history, {**assistant, "id": "m2"}, third, {"role": "user"}])
    calls = server.get("/api/v1/runs/client/calls")["calls"]
    assert [(one["call_id"], one["state"], one["output"], one["anomalies"]) for one in calls] == [
        ("call_0", "output-available", {"answer": "yes"}, []), ("c2", "output-error", None, []),
        ("call_0", "output-available", "plain", []),
    ]  # fmt: skip
    assert upstream.requests[0][0]["messages"][1] == first  # what the agent reads is unchanged


def test_answers_given_here_go_out_as_one_resume(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("ours"), *call("c1"), *call("c2"), build_interrupts("ours", "c1", "c2"))
    post(server, "ours")
    vote(server, "ours", "c1", "approve")
    response = server.get("/api/v1/ag-ui/planner/resume?run=ours&wait=0.2")
    assert response == {"run": "ours", "waiting": 1, "resume": []}
    vote(server, "ours", "c2", "deny", reason="never")
    response = server.get("/api/v1/ag-ui/planner/resume?run=ours&wait=60")
    assert response["waiting"] == 0 and len(response["resume"]) == 2
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c1", "content": "deleted"}
    upstream.reset(build_run_start("ours"), result, finished("ours"))
    post(server, "ours")
    assert upstream.requests[0][0]["resume"] == response["resume"]
    assert response["resume"][1] == {
        "interruptId": "int-c2", "status": "resolved", "payload": {"approved": False, "reason": "never"},
    }  # fmt: skip
    cards = gating.calls(server, "ours")
    assert [(card["state"], card["approval"]["by"]["kind"]) for card in cards.values()] == [
        ("output-available", "human"), ("output-denied", "human"),
    ]  # fmt: skip
    assert server.get("/api/v1/ag-ui/planner/resume?run=ours")["resume"] == []


def test_requests_at_the_same_time_give_the_agent_each_answer_once(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("four"), *call("c1"), *call("c2"), build_interrupts("four", "c1", "c2"))
    post(server, "four")
    vote(server, "four", "c1", "approve")
    vote(server, "four", "c2", "deny")
    upstream.reset(build_run_start("four"), finished("four"))
    with ThreadPoolExecutor(4) as senders:
        statuses = [status for status, _ in senders.map(lambda _: post(server, "four"), range(4))]
    resumes = [body["resume"] for body, _ in upstream.requests if "resume" in body]
    assert statuses == [200] * 4 and [len(entries) for entries in resumes] == [2]


def test_an_answer_that_an_agent_has_read_cannot_be_undone(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("read"), *call("c"), build_interrupts("read", "c"))
    post(server, "read")
    vote(server, "read", "c", "approve")
    (entry,) = server.get("/api/v1/ag-ui/planner/resume?run=read")["resume"]
    assert entry["payload"] == {"approved": True}
    approval = gating.calls(server, "read")["c"]["approval"]["id"]
    assert Voter(server).post(f"/approvals/{approval}/undo", page="/approvals/")[0] == 410


def test_what_was_denied_here_cannot_be_approved_in_the_chat(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("both"), *call("c"), build_interrupts("both", "c"))
    post(server, "both")
    vote(server, "both", "c", "deny", reason="never")
    post(server, "both", resume=[{"interruptId": "int-c", "status": "resolved", "payload": {"approved": True}}])
    assert upstream.requests[1][0]["resume"][0]["payload"] == {"approved": False, "reason": "never"}


def test_several_answers_for_langgraph_go_by_their_ids(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(
        build_run_start("graph"), *call("c1"), *call("c2"), build_interrupts("graph", "c1", "c2", langgraph={})
    )
    post(server, "graph")
    vote(server, "graph", "c1", "approve")
    vote(server, "graph", "c2", "deny", reason="never")
    post(server, "graph", forwardedProps={"theme": "dark"})
    body = upstream.requests[1][0]
    resume = {"int-c1": {"type": "approve"}, "int-c2": {"type": "reject", "message": "never"}}
    assert body["forwardedProps"] == {"theme": "dark", "command": {"resume": resume}} and "resume" not in body


def test_an_agent_that_is_away_has_not_received_the_answer(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(build_run_start("away"), *call("c"), build_interrupts("away", "c"))
    post(server, "away")
    vote(server, "away", "c", "approve")
    status, result = post(server, "away", "absent")
    assert (status, result["error"]["code"]) == (502, "upstream")
    assert len(server.get("/api/v1/ag-ui/planner/resume?run=away")["resume"]) == 1


# ---------------------------------------------------------------- questions for a value


def outcomes(server: Server, run: str) -> list[tuple[str, Any]]:
    assert not [card["anomalies"] for card in gating.calls(server, run).values() if card["anomalies"]]
    return [(card["state"], card["output"]) for card in gating.calls(server, run).values()]


def test_a_question_is_answered_in_the_inbox_and_the_agent_gets_the_value_once(
    server: Server, upstream: FakeAgent
) -> None:
    upstream.reset(*requesting("value"))
    post(server, "value")
    vote(server, "value", "value-1:ask", "answer", **{"answer-0": "1"})
    entry = {"interruptId": "ask", "status": "resolved", "payload": {"city": "Oslo"}}
    assert server.get("/api/v1/ag-ui/planner/resume?run=value")["resume"] == [entry]
    upstream.reset(*requesting("value", 2))  # the same id in a later run is another question
    post(server, "value", resume=[entry])
    assert upstream.requests[0][0]["resume"] == [entry]
    assert outcomes(server, "value") == [("output-available", {"city": "Oslo"}), ("approval-requested", None)]
    assert server.get("/api/v1/ag-ui/planner/resume?run=value") == {"run": "value", "waiting": 1, "resume": []}
    vote(server, "value", "value-2:ask", "deny", reason="not now")
    upstream.reset(build_run_start("value"), finished("value"))
    post(server, "value")
    assert upstream.requests[0][0]["resume"] == [{"interruptId": "ask", "status": "cancelled"}]
    post(server, "value")
    assert "resume" not in upstream.requests[1][0]
    assert [state for state, _ in outcomes(server, "value")] == ["output-available", "output-denied"]


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        ({"status": "resolved", "payload": {"city": "Rome"}}, ("output-available", {"city": "Rome"})),
        ({"status": "resolved", "payload": {"approved": False}}, ("output-available", {"approved": False})),
        ({"status": "cancelled"}, ("output-denied", None)),
    ],
)
def test_a_question_answered_in_the_clients_chat_ends_its_card(
    server: Server, upstream: FakeAgent, entry: Any, outcome: Any
) -> None:
    run = f"chat-{outcome[0]}-{len(str(entry))}"
    upstream.reset(*requesting(run))
    post(server, run)
    upstream.reset(build_run_start(run), finished(run))
    post(server, run, resume=[{"interruptId": "ask", **entry}])
    assert outcomes(server, run) == [outcome]
    assert upstream.requests[0][0]["resume"][0] == {"interruptId": "ask", **entry}
    assert server.get(f"/api/v1/ag-ui/planner/resume?run={run}")["resume"] == []


def test_an_answer_here_beats_another_one_in_the_chat(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(*requesting("first"))
    post(server, "first")
    vote(server, "first", "first-1:ask", "answer", **{"answer-0": "0"})
    upstream.reset(build_run_start("first"), finished("first"))
    post(server, "first", resume=[{"interruptId": "ask", "status": "resolved", "payload": {"city": "Oslo"}}])
    assert upstream.requests[0][0]["resume"][0]["payload"] == {"city": "Rome"}
    assert outcomes(server, "first") == [("output-available", {"city": "Rome"})]


def test_an_answer_that_did_not_reach_the_agent_is_kept(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(*requesting("kept"))
    post(server, "kept")
    vote(server, "kept", "kept-1:ask", "answer", **{"answer-0": "0"})
    assert post(server, "kept", "absent")[0] == 502
    upstream.reset(build_run_start("kept"), finished("kept"))
    upstream.status = 503
    assert post(server, "kept")[0] == 503
    upstream.reset(build_run_start("kept"), finished("kept"))
    post(server, "kept")
    assert upstream.requests[0][0]["resume"][0]["payload"] == {"city": "Rome"}
    assert outcomes(server, "kept") == [("output-available", {"city": "Rome"})]


def test_a_question_that_no_one_answers_in_time_gives_the_agent_no_value(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(*requesting("late", expiresAt=datetime.fromtimestamp(time.time() + 1, UTC).isoformat()))
    post(server, "late")
    path = "/api/v1/ag-ui/planner/resume?run=late&wait=5"
    resume = until(lambda: server.get(path)["resume"])
    assert resume == [{"interruptId": "ask", "status": "cancelled"}]
    assert outcomes(server, "late") == [("output-denied", None)]


def test_a_question_of_the_agent_is_answered_unless_a_rule_denies_it(server: Server, upstream: FakeAgent) -> None:
    rule = {"id": "n", "effect": "deny", "match": {"tool": ["elicitation/create"]}}
    upstream.reset(*requesting("strict"))
    post(server, "strict")
    try:
        gating.activate(server, {"v": 1, "default": "deny", "rules": [rule]})
        with pytest.raises(AssertionError, match="The policy denies the edited call"):
            vote(server, "strict", "strict-1:ask", "answer", **{"answer-0": "0"})
        gating.activate(server, {"v": 1, "default": "deny", "rules": []})
        vote(server, "strict", "strict-1:ask", "answer", **{"answer-0": "0"})
    finally:
        gating.activate(server, {"v": 1, "default": "ask", "rules": []})
    assert len(server.get("/api/v1/ag-ui/planner/resume?run=strict")["resume"]) == 1


def test_a_form_that_cannot_be_shown_is_left_to_the_client(server: Server, upstream: FakeAgent) -> None:
    upstream.reset(*requesting("hidden", responseSchema={"properties": {"x": {"type": "object"}}}))
    post(server, "hidden")
    assert gating.calls(server, "hidden") == {}


@pytest.mark.slow
def test_beyond_the_quota_the_stream_continues_and_its_events_are_counted(tmp_path: Path, upstream: FakeAgent) -> None:
    args = [{"type": "TOOL_CALL_ARGS", "toolCallId": "big", "delta": "x" * 60_000} for _ in range(20)]
    begin = {"type": "TOOL_CALL_START", "toolCallId": "big", "toolCallName": "search"}
    end = {"type": "TOOL_CALL_END", "toolCallId": "big"}
    upstream.reset(build_run_start("large"), *call("c"), begin, *args, end, *call("late"), finished("large"))
    with Server(
        tmp_path, agui_upstreams=f"planner={upstream.url}", source_quota=1, max_args=10_000_000
    ) as small_server:
        status, outcome = post(small_server, "large")
        assert (status, outcome) == (200, b"".join(map(sse, upstream.events)).decode())
        run = until(lambda: (value := small_server.get("/api/v1/runs/large"))["status"] != "running" and value)
        assert run["skipped"]["kinds"]["over the quota"] == run["skipped"]["frames"] > 0
        assert gating.calls(small_server, "large").keys() == {"c", "big"}
