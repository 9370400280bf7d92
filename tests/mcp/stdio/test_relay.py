"""`toolcards mcp -- <command>` before a server that records every line it gets, with a gate on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gate import Gate, plain
from tests.support.server import PATIENCE, ROOT, until

EFFECTS = {"read": "allow", "remove": "deny", "mail": "ask"}


class Client:
    """An MCP client that writes lines as a test wants them."""

    def __init__(self, gate_url: str, home: Path) -> None:
        self.log = home / "lines"
        server = [sys.executable, str(ROOT / "tests/support/mcp_server.py"), str(self.log)]
        env = os.environ | {"TOOLCARDS_URL": gate_url, "TOOLCARDS_AGENT_KEY": "tck_x", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "toolcards", "mcp", "--server", "files", "--", *server],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
        )  # fmt: skip

    def write(self, *lines: bytes | Any) -> None:
        """Send messages, or lines as they are."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.process.stdin.flush()

    def call(self, number: Any, tool: str, **args: Any) -> None:
        """Send a `tools/call` request."""
        self.write(make_call(number, tool, args))

    def read(self) -> Any:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def read_answer(self, number: Any) -> Any:
        """Return the answer to a request; answers to others are dropped."""
        while (message := self.read()).get("id") != number or "method" in message:
            continue
        return message

    def close(self) -> int:
        """Hang up; return the exit code."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    @property
    def received(self) -> list[Any]:
        """The messages that the server got, apart from lists of tools."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        messages = [json.loads(line) for line in lines]
        return [each for each in messages if not isinstance(each, dict) or each.get("method") != "tools/list"]

    @property
    def executed(self) -> list[Any]:
        """The names and arguments of the calls that the server got, in batches too."""
        messages = [each for entry in self.received for each in (entry if isinstance(entry, list) else [entry])]
        calls = [each["params"] for each in messages if each.get("method") == "tools/call"]
        return [(params["name"], params.get("arguments")) for params in calls]


def make_call(number: Any, tool: str, args: Any, **params: Any) -> dict[str, Any]:
    """Return a `tools/call` request."""
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": tool, "arguments": args} | params,
    }


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(effects=dict(EFFECTS)) as running:
        yield running


@pytest.fixture
def client(gate: Gate, tmp_path: Path) -> Iterator[Client]:
    new_client = Client(gate.url, tmp_path)
    yield new_client
    new_client.close()


def test_an_allowed_call_reaches_the_server_and_its_result_is_reported(gate: Gate, client: Client) -> None:
    client.call(1, "read", path="a")
    assert client.read_answer(1)["result"]["content"][0]["text"] == "done"
    assert client.executed == [("read", {"path": "a"})]
    (result,) = until(lambda: [body for stage, body in gate.requests if stage == "result"])
    assert (result["outcome"], result["output"]) == ("ok", "done")


def test_a_denied_call_does_not_reach_the_server_and_the_model_reads_why(client: Client) -> None:
    client.call("a", "remove", path="a")
    answer = client.read_answer("a")
    assert answer["result"]["isError"] is True and "The test says deny" in answer["result"]["content"][0]["text"]
    assert client.executed == []


def test_a_call_runs_with_the_arguments_that_a_person_put_in_place(gate: Gate, client: Client) -> None:
    gate.edited = {"to": "you"}
    client.call(1, "mail", to="me")
    assert "result" in client.read_answer(1)
    assert client.executed == [("mail", {"to": "you"})]


HOSTILE = {
    "two methods": b'{"jsonrpc":"2.0","id":9,"method":"tools/call","method":"ping","params":{"name":"remove"}}',
    "two methods, the call last": b'{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/call","params":{}}',
    "two names": b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read","name":"remove"}}',
    "two arguments": b'{"id":9,"method":"tools/call","params":{"name":"read","arguments":{"a":1,"a":2}}}',
    "not a number": b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"remove","arguments":{"a":NaN}}}',
    "no json": b'{"jsonrpc":"2.0","method":"tools/call"',
    "another encoding": '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"remove"}}'.encode("utf-16"),
    "very deep": b"[" * 100_000,
    "a text": b'"tools/call"',
    "no id": b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"remove","arguments":{}}}',
    "a null id": b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"remove","arguments":{}}}',
    "arguments that are a list": b'{"id":9,"method":"tools/call","params":{"name":"read","arguments":[1]}}',
    "a name that is a list": b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":["read"]}}',
    "a batch": b'[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"remove","arguments":{}}}]',
    "a nested batch": b'[[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"remove","arguments":{}}}]]',
    "another case of method": b'{"id":9,"method":"ping","Method":"tools/call","params":{"name":"remove"}}',
    "only another case of method": b'{"id":9,"METHOD":"tools/call","params":{"name":"remove"}}',
    "another case of name": b'{"id":9,"method":"tools/call","params":{"name":"read","Name":"remove"}}',
    "another case of arguments": b'{"id":9,"method":"tools/call","params":{"name":"read","Arguments":{"path":"b"}}}',
    "another case of params": '{"id":9,"method":"tools/call","params":{"name":"read"},"param\u017f":{}}'.encode(),
    "another case in a batch": b'[{"id":9,"Method":"tools/call","params":{"name":"remove"}}]',
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_line_that_can_be_read_in_two_ways_brings_no_call_to_the_server(client: Client, line: bytes) -> None:
    client.write(line, {"jsonrpc": "2.0", "id": "last", "method": "ping"})
    assert client.read_answer("last")["result"] == {"method": "ping"}
    client.close()
    assert client.executed == []


@pytest.mark.parametrize("name", ["read\0", "read\ud800"])
def test_a_call_that_cannot_be_judged_is_answered(client: Client, name: str) -> None:
    client.call(1, name, path="a")
    assert client.read_answer(1)["result"]["isError"] is True and client.executed == []


def test_a_batch_passes_without_its_calls_which_are_judged_one_by_one(client: Client) -> None:
    client.write([make_call(1, "read", {}), make_call(2, "remove", {}), {"jsonrpc": "2.0", "id": 3, "method": "ping"}])
    answers = {message["id"]: message for message in (client.read() for _ in range(3))}
    assert "isError" not in answers[1]["result"] and answers[2]["result"]["isError"] and answers[3]["result"]
    assert client.executed == [("read", {})]


def test_of_two_open_calls_with_one_id_the_second_is_refused(gate: Gate, client: Client) -> None:
    gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
    client.call(1, "mail", to="me")
    until(lambda: [stage for stage, _ in gate.requests if stage == "decide"])
    client.call(1, "read", path="a")
    assert "same id" in client.read_answer(1)["error"]["message"]
    assert client.executed == []


def test_a_canceled_call_is_withdrawn_and_never_runs(gate: Gate, client: Client) -> None:
    gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
    client.call(1, "mail", to="me")
    until(lambda: [stage for stage, _ in gate.requests if stage == "poll"])
    client.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    until(lambda: [stage for stage, _ in gate.requests if stage == "withdraw"])
    client.write({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    assert client.read_answer(2)["result"]
    assert client.received == [{"jsonrpc": "2.0", "id": 2, "method": "ping"}]


def test_a_call_that_is_canceled_in_a_batch_never_runs_either(gate: Gate, client: Client) -> None:
    gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
    client.call(1, "mail", to="me")
    until(lambda: [stage for stage, _ in gate.requests if stage == "poll"])
    cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    client.write([cancellation, ping])
    until(lambda: [stage for stage, _ in gate.requests if stage == "withdraw"])
    assert client.read_answer(2)["result"]
    assert client.received == [[ping]]


def test_each_request_of_a_call_that_the_server_continues_is_judged(gate: Gate, client: Client) -> None:
    client.call(1, "read", wants_input=True)
    state = client.read_answer(1)["result"]["requestState"]
    retry = {"requestState": state, "inputResponses": {"name": {"action": "accept"}}}
    client.write(make_call(2, "read", {"wants_input": True}, **retry))
    assert client.read_answer(2)["result"]["content"]
    assert sum(stage == "decide" for stage, _ in gate.requests) == 2
    gate.effects["read"] = "deny"
    for number, args in ((3, {"wants_input": True}), (4, {"wants_input": True, "more": 1})):
        client.write(make_call(number, "read", args, **retry))
        assert client.read_answer(number)["result"]["isError"]
    assert len(client.executed) == 2


def test_the_gateway_ends_with_its_server_and_reports_the_open_call(gate: Gate, client: Client) -> None:
    client.call(1, "read", exit=True)
    assert client.process.wait(PATIENCE) == 3
    (result,) = [body for stage, body in gate.requests if stage == "result"]
    assert result["outcome"] == "aborted" and [stage for stage, _ in gate.requests if stage == "end"]


def test_a_waiting_call_reports_progress_so_that_its_client_keeps_waiting(gate: Gate, client: Client) -> None:
    gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
    client.write(make_call(1, "mail", {}, _meta={"progressToken": "t"}))
    message = client.read()
    assert message["method"] == "notifications/progress" and message["params"]["progressToken"] == "t"


def test_the_server_does_not_get_the_key_of_the_agent(gate: Gate, tmp_path: Path) -> None:
    env = os.environ | {"TOOLCARDS_URL": gate.url, "TOOLCARDS_AGENT_KEY": "tck_secret", "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    command = [sys.executable, "-m", "toolcards", "mcp", "--", *program]
    process = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    assert "TOOLCARDS_URL" in process.stdout and "TOOLCARDS_AGENT_KEY" not in process.stdout
