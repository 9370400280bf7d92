"""The JavaScript clients: one id for several calls, what is run of an edit, stopping, connections."""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, plain
from tests.support.javascript import CLIENTS, NODE, ROOT, Node
from tests.support.server import PATIENCE, until

pytestmark = pytest.mark.skipif(NODE is None, reason="not here: Node.js")
EDITING = ["runs", "gated", "tanstack", "opencode"]  # those that can run other arguments than the model's
LOOKUP, WIPE = {"tool": "lookup", "id": "call_0", "args": {}}, {"tool": "wipe", "id": "call_0", "args": {}}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"lookup": "allow", "agent": "allow", "wipe": "deny", "ask": "ask"}) as running:
        yield running


@pytest.fixture
def run() -> str:
    return f"run-{uuid.uuid4().hex}"


def list_calls(gate: Gate) -> list[tuple[str, int, str]]:
    return [(call.call_id, call.attempt, call.tool) for call in gate.calls]


# ---------------------------------------------------------------- one id for several calls


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", ["parallel", "nested", "in turn"])
def test_a_denied_tool_under_an_id_that_was_allowed_does_not_run(
    node: Node, gate: Gate, run: str, client: str, how: str
) -> None:
    """The same id and the same arguments: only the tool differs."""
    result = node.play(client=client, url=gate.url, run=run, calls=[LOOKUP, WIPE], how=how)
    assert result["ran"] == [["lookup", {}]] and "The test says deny." in result["said"][0], result
    assert sorted(tool for _, _, tool in list_calls(gate)) == ["lookup", "wipe"]
    assert len({(call_id, attempt) for call_id, attempt, _ in list_calls(gate)}) == 2


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("how", ["parallel", "nested", "in turn"])
def test_every_call_of_one_id_is_asked_about(node: Node, gate: Gate, run: str, client: str, how: str) -> None:
    """The same tool, other arguments, and the very same call again."""
    calls = [LOOKUP | {"args": {"n": n}} for n in (1, 2, 1)]
    result = node.play(client=client, url=gate.url, run=run, calls=calls, how=how)
    assert sorted(args["n"] for _, args in result["ran"]) == [1, 1, 2] and result["said"] == []
    assert len({(call_id, attempt) for call_id, attempt, _ in list_calls(gate)}) == 3
    assert sorted(call.args["n"] for call in gate.calls) == [1, 1, 2]


@pytest.mark.parametrize("client", ["runs", "gated", "tanstack"])
def test_an_id_is_a_new_attempt_after_its_call_ended_and_another_call_while_it_is_open(
    node: Node, gate: Gate, run: str, client: str
) -> None:
    node.play(client=client, url=gate.url, run=run, calls=[LOOKUP, LOOKUP, WIPE, LOOKUP], how="in turn")
    assert [(call_id, attempt) for call_id, attempt, _ in list_calls(gate)] == [("call_0", n) for n in (1, 2, 3, 4)]
    value = lambda: sorted(body["attempt"] for stage, body in gate.requests if stage == "result")  # noqa: E731
    until(lambda: value() == [1, 2, 4])  # the denied one did not run
    gate.calls.clear()
    node.play(client=client, url=gate.url, run=f"{run}-2", calls=[LOOKUP, LOOKUP], how="nested")
    assert [(call_id, attempt) for call_id, attempt, _ in list_calls(gate)] == [("call_0", 1), ("call_0#2", 1)]


@pytest.mark.parametrize("client", CLIENTS)
def test_other_runs_have_ids_of_their_own(node: Node, gate: Gate, run: str, client: str) -> None:
    for name in (f"{run}-a", f"{run}-b"):
        assert node.play(client=client, url=gate.url, run=name, calls=[LOOKUP])["ran"] == [["lookup", {}]]
    assert {(call_id, attempt) for call_id, attempt, _ in list_calls(gate)} == {("call_0", 1)}


def test_a_claim_names_attempt_tool_and_both_digests(node: Node, gate: Gate, run: str) -> None:
    node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP])
    (call,) = gate.calls
    (claim,) = (body for stage, body in gate.requests if stage == "claim")
    assert claim.pop("claim_id")
    assert claim == {
        "call_id": "call_0", "attempt": 1, "args_sha256": call.binding["args_sha256"], "schema_sha256": "",
        "tool": {"name": "lookup", "source": ""}, "call_sha256": call.binding["call_sha256"],
    }  # fmt: skip


# ---------------------------------------------------------------- what runs


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_person_edited_is_what_runs_or_nothing_does(node: Node, gate: Gate, run: str, client: str) -> None:
    gate.edited = {"path": "/trash"}
    result = node.play(client=client, url=gate.url, run=run, calls=[{"tool": "ask", "id": "c", "args": {"path": "/"}}])
    if client in EDITING:
        assert result["ran"] == [["ask", {"path": "/trash"}]], result
    else:
        assert result["ran"] == [] and "/trash" in result["said"][0], result


@pytest.mark.parametrize("client", ["gated", "tanstack"])
def test_an_edit_that_the_tool_does_not_take_does_not_run(node: Node, gate: Gate, run: str, client: str) -> None:
    gate.edited = {"rm": True}
    call = {"tool": "ask", "id": "c", "args": {"path": "/"}, "only": ["path"]}
    result = node.play(client=client, url=gate.url, run=run, calls=[call])
    assert result["ran"] == [] and "does not accept them" in result["said"][0], result
    until(lambda: "result" in gate.stages())
    assert next(body["outcome"] for stage, body in gate.requests if stage == "result") == "error"


CENTS = {
    "type": "object", "properties": {"cents": {"type": "integer", "minimum": 1}, "note": {"$ref": "#/$defs/note"}},
    "required": ["cents"], "additionalProperties": False,
    "$defs": {"note": {"anyOf": [{"type": "string"}, {"const": 0}]}},
}  # fmt: skip


@pytest.mark.parametrize("client", ["gated", "tanstack"])
@pytest.mark.parametrize(
    ("edited", "mismatch"),
    [
        ({"cents": 5, "note": "less"}, ""),
        ({"cents": "lots"}, "/cents: must be integer"),
        ({"cents": 0}, "/cents: is too small"),
        ({"note": "x"}, "cents is missing"),
        ({"cents": 5, "rm": True}, "/rm: is not allowed"),
        ({"cents": 5, "note": 1}, "/note: matches none"),
        ([], "must be object"),
    ],
)
def test_an_edit_is_checked_against_a_plain_json_schema(
    node: Node, gate: Gate, run: str, client: str, edited: Any, mismatch: str
) -> None:
    gate.edited = edited
    call = {"tool": "ask", "id": "c", "args": {"cents": 7}, "schema": CENTS}
    result = node.play(client=client, url=gate.url, run=run, calls=[call])
    assert result["ran"] == ([] if mismatch else [["ask", edited]]), result
    assert not mismatch or mismatch in result["said"][0], result


@pytest.mark.parametrize("client", EDITING)
def test_arguments_that_change_while_a_person_is_asked_do_not_run(
    node: Node, gate: Gate, run: str, client: str
) -> None:
    """Other code in the process holds the same object: what runs is what was evaluated."""

    def slow(stage: str, honest: Any) -> Answer | None:
        return Answer([0.5, *plain(honest).pieces], close=False) if stage == "poll" else None

    gate.tamper = slow
    call = {"tool": "ask", "id": "c", "args": {"path": "/tmp"}}
    result = node.play(client=client, url=gate.url, run=run, calls=[call], mutate={"path": "/"})
    assert result["ran"] == [["ask", {"path": "/tmp"}]], result


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stage", ["decide", "poll", "claim"])
def test_a_call_that_is_stopped_while_it_waits_does_not_run(
    node: Node, gate: Gate, run: str, client: str, stage: str
) -> None:
    hold = threading.Event()

    def stop_and_hold(now: str, honest: Any) -> Answer | None:
        if now == stage:
            node.stop_run()
            hold.wait(PATIENCE)
        return None

    gate.tamper = stop_and_hold
    call = {"tool": "ask" if stage == "poll" else "lookup", "id": "c", "args": {}}
    result = node.play(client=client, url=gate.url, run=run, calls=[call])
    hold.set()
    assert result["ran"] == [] and result["said"][0].endswith("The run was stopped."), result
    if stage == "poll":
        until(lambda: "withdraw" in gate.stages())


# ---------------------------------------------------------------- connections


@pytest.mark.parametrize("client", CLIENTS)
def test_no_connection_is_used_twice_so_that_none_is_met_closed(node: Node, gate: Gate, run: str, client: str) -> None:
    """A server, or a proxy before it, closes idle connections when it likes."""
    gate.idle = lambda number: True
    calls = [{"tool": "lookup", "id": f"c{n}", "args": {}} for n in range(5)]
    result = node.play(client=client, url=gate.url, run=run, calls=calls, how="in turn")
    assert len(result["ran"]) == 5 and result["said"] == []
    assert gate.connections >= 10


def test_a_question_whose_connection_closes_without_an_answer_is_not_asked_again(
    node: Node, gate: Gate, run: str
) -> None:
    gate.tamper = lambda now, honest: Answer([]) if now == "decide" else None
    result = node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP])
    assert result["ran"] == [] and gate.stages().count("decide") == 1


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("lost_answers", "ran"), [(1, 1), (2, 1), (3, 0)])
def test_a_claim_whose_answer_is_lost_is_sent_again_unchanged(
    node: Node, gate: Gate, run: str, client: str, lost_answers: int, ran: int
) -> None:
    def tamper(stage: str, honest: Any) -> Answer | None:
        return Answer([]) if stage == "claim" and gate.stages().count("claim") <= lost_answers else None

    gate.tamper = tamper
    result = node.play(client=client, url=gate.url, run=run, calls=[LOOKUP], haste=10)
    claims = [body for stage, body in gate.requests if stage == "claim"]
    assert len(result["ran"]) == ran and len(claims) == min(lost_answers + 1, 3)
    assert claims[0]["claim_id"] and all(claim == claims[0] for claim in claims)


def test_a_claim_that_is_refused_is_not_sent_again(node: Node, gate: Gate, run: str) -> None:
    gate.tamper = lambda now, honest: plain({}, status="410 Gone") if now == "claim" else None
    result = node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP])
    assert result["ran"] == [] and gate.stages().count("claim") == 1


# ---------------------------------------------------------------- what cannot be judged


@pytest.mark.parametrize(
    "args", [{"n": 2**53}, {"s": "\ud800"}, {"s": "\0"}, {"deep": json.loads("[" * 40 + "]" * 40)}]
)
def test_arguments_that_cannot_be_judged_are_not_asked_about(node: Node, gate: Gate, run: str, args: Any) -> None:
    result = node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP | {"args": args}])
    assert result["ran"] == [] and "cannot be evaluated" in result["said"][0] and gate.requests == []


@pytest.mark.parametrize("client", ["runs", "gated", "toolApproval", "tanstack"])
def test_the_end_of_the_agents_own_time_is_said_to_be_that(node: Node, run: str, client: str) -> None:
    """So the card reads denied, as it does for the Python client."""
    with Gate({"lookup": "ask"}) as gate:
        gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
        result = node.play(client=client, url=gate.url, run=run, calls=[LOOKUP], seconds=0.5)
        assert result["ran"] == [] and "No one answered in time." in result["said"][0], result
        until(lambda: ("withdraw", {"timed_out": True}) in gate.requests)


def test_the_model_does_not_read_a_key_that_cannot_be_sent() -> None:
    code = """
        const { request } = await import(process.argv[1]);
        const ask = (key) => request({ url: 'http://127.0.0.1:9', key }, 'GET', '/').catch((error) => error.message);
        console.log(JSON.stringify([await ask('tck_secret\\nsecond line'), await ask('tck_secret\\r\\n')]));
    """
    assert NODE is not None
    module = (ROOT / "static/clients/gate-http.mjs").as_uri()
    completed = subprocess.run([NODE, "--input-type=module", "-e", code, module], capture_output=True, text=True)
    of_bad_key, unreachable = json.loads(completed.stdout)
    assert "copy the key again" in of_bad_key and "tck_secret" not in of_bad_key
    assert "copy the key" not in unreachable and "tck_secret" not in unreachable
