"""The JavaScript clients: one id for several calls, what is run of an edit, stopping, connections."""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import AWAY, Answer, Gate, plain
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
    else:
        until(lambda: [body for name, body in gate.requests if name == "result"] == [given_up(run)])


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


# ---------------------------------------------------------------- reports


def given_up(run: str) -> dict[str, Any]:
    return {"run": run, "attempt": 1, "outcome": "aborted", "side_effects": "none"}


def list_reports(gate: Gate, stage: str) -> list[dict[str, Any]]:
    return [body for name, body in gate.requests if name == stage]


def lose(stage: str, count: int, gate: Gate, answer: Answer) -> None:
    """Let the gate give this answer to the first requests of a stage."""
    gate.tamper = lambda now, honest: answer if now == stage and gate.stages().count(stage) <= count else None


FAILED_ANSWERS = {"nothing": Answer([]), "a part": Answer([b"HTTP/1.1 200 OK\r\nContent-Le"]), "an error": AWAY}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stage", ["decide", "claim"])
@pytest.mark.parametrize("answer", FAILED_ANSWERS)
def test_a_call_whose_answers_are_lost_is_given_up(
    node: Node, gate: Gate, run: str, client: str, stage: str, answer: str
) -> None:
    """The server may have asked a person about it, or count on its result."""
    lose(stage, 3, gate, FAILED_ANSWERS[answer])
    result = node.play(client=client, url=gate.url, run=run, calls=[LOOKUP], haste=10)
    assert result["ran"] == []
    until(lambda: list_reports(gate, "result") == [given_up(run)])


def test_a_call_that_the_server_refused_is_not_given_up(node: Node, gate: Gate, run: str) -> None:
    lose("decide", 1, gate, plain({}, status="403 Forbidden"))
    node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP, LOOKUP])
    until(lambda: [body["outcome"] for body in list_reports(gate, "result")] == ["ok"])


@pytest.mark.parametrize("client", ["runs", "gated", "tanstack"])
@pytest.mark.parametrize("answer", FAILED_ANSWERS)
def test_a_result_is_sent_until_the_server_has_it(node: Node, gate: Gate, run: str, client: str, answer: str) -> None:
    lose("result", 3, gate, FAILED_ANSWERS[answer])
    node.play(client=client, url=gate.url, run=run, calls=[LOOKUP], haste=10)
    until(lambda: len(list_reports(gate, "result")) == 4)
    assert list_reports(gate, "result") == 4 * [{"run": run, "attempt": 1, "outcome": "ok", "output": "lookup"}]


@pytest.mark.parametrize("answer", FAILED_ANSWERS)
def test_an_approval_is_withdrawn_until_the_server_knows(node: Node, gate: Gate, run: str, answer: str) -> None:
    tampers = {"withdraw": FAILED_ANSWERS[answer], "poll": plain({}, status="401 Unauthorized")}
    gate.tamper = lambda now, honest: tampers.get(now) if gate.stages().count("withdraw") <= 3 else None
    node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP | {"tool": "ask"}], haste=10)
    until(lambda: list_reports(gate, "withdraw") == 4 * [{}])


@pytest.mark.parametrize(("status", "count"), [("404 Not Found", 4), ("401 Unauthorized", 1)])
def test_a_report_that_is_refused_is_given_up(node: Node, gate: Gate, run: str, status: str, count: int) -> None:
    """A call may be unknown for a moment: its question is on the way."""
    lose("result", 9, gate, plain({}, status=status))
    node.play(client="runs", url=gate.url, run=run, calls=[LOOKUP], haste=10)
    until(lambda: len(list_reports(gate, "result")) == count)
    node.play(client="runs", url=gate.url, run=f"{run}-2", calls=[LOOKUP])
    assert [body["run"] for body in list_reports(gate, "result")].count(run) == count


@pytest.mark.parametrize(
    ("value", "output"),
    [("9007199254740993n", "9007199254740993"), ("{ n: 1n }", {"n": "1"}), ("globalThis", None), ("() => 1", None)],
)
def test_a_result_without_a_json_form_is_reported_and_returned(gate: Gate, run: str, value: str, output: Any) -> None:
    completed = run_script(
        gate.url, run, f"const value = {value}; console.log(await runs(call, options, () => value) === value);"
    )
    assert completed.stdout == "true\n", completed.stderr
    (report,) = list_reports(gate, "result")
    assert report["outcome"] == "ok"
    assert report.get("output") == output or (output is None and isinstance(report.get("output", ""), str))


def run_script(url: str, run: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a module that has `mirror`, `runs`, `gate`, `call` and `options` to its end."""
    head = """
        const [folder, url, run] = process.argv.slice(1);
        const { mirror, runs } = await import(`${folder}/ai-sdk.mjs`);
        const { gate } = await import(`${folder}/tanstack.mjs`);
        const [call, options] = [{ tool: 'lookup', callId: 'c', args: {} }, { url, key: 'key', run }];
    """
    assert NODE is not None
    command = [NODE, "--input-type=module", "-e", head + code, (ROOT / "static/clients").as_uri(), url, run]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("end", ["onAbort", "onError"])
def test_a_chat_that_ends_before_its_tool_aborts_the_call_and_a_late_result_counts(
    gate: Gate, run: str, end: str
) -> None:
    """TanStack: the chat may end between the decision and the call, and a tool may ignore that."""
    code = f"""
        let request; // the latest one
        const middleware = gate({{ ...options, fetch: (...parts) => (request = fetch(...parts)) }});
        const about = (toolCallId) => ({{ toolName: 'lookup', toolCallId, args: {{}}, tool: {{}} }});
        for (const requestId of ['one', 'other']) await middleware.onBeforeToolCall({{ requestId }}, about(requestId));
        middleware.{end}({{ requestId: 'one' }}, {{}});
        await request;
        middleware.onAfterToolCall({{}}, {{ ...about('one'), ok: true, result: 1 }});
    """
    completed = run_script(gate.url, run, code)
    assert completed.returncode == 0, completed.stderr
    assert [body["outcome"] for body in list_reports(gate, "result")] == ["aborted", "ok"]


def test_a_copy_that_is_given_up_ends_no_open_call_but_the_end_of_its_stream_does(gate: Gate, run: str) -> None:
    """The next call with an id is another call while the first one is open, and a further attempt afterward."""
    code = """
        const source = new ReadableStream({ start: (queue) => queue.enqueue({ type: 'start', messageId: 'm' }) });
        const lostCopy = new Promise((onError) => (options.onError = onError));
        const reader = mirror(source, { ...options, limit: 1 }).getReader();
        options.onError = undefined;
        const open = runs(call, options, async () => {
          await reader.read();
          await lostCopy;
          await runs(call, options, () => {});
          await reader.cancel();
          await runs(call, options, () => {});
        });
        await open;
    """
    completed = run_script(gate.url, run, code)
    assert completed.returncode == 0, completed.stderr
    assert list_calls(gate) == [("c", 1, "lookup"), ("c#2", 1, "lookup"), ("c", 2, "lookup")]


@pytest.mark.slow
def test_a_report_does_not_keep_node_running_while_the_server_is_away(gate: Gate, run: str) -> None:
    """It is sent again for two minutes, but only while the program does something else."""
    lose("result", 99, gate, Answer([]))
    completed = run_script(gate.url, run, "await runs(call, options, () => console.log('ran'));")
    assert (completed.returncode, completed.stdout) == (0, "ran\n"), completed.stderr
    assert len(list_reports(gate, "result")) > 1


@pytest.mark.slow
def test_a_fetch_that_throws_is_a_denial(gate: Gate, run: str) -> None:
    code = "options.fetch = () => { throw new Error('no'); };"
    code += "await runs(call, options, () => {}).catch((error) => console.log(error.message));"
    completed = run_script(gate.url, run, code)
    assert completed.returncode == 0 and "could not be reached" in completed.stdout, completed.stderr


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
