"""Forms of a server at the gateway: which it takes, and what the server gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, plain
from tests.support.server import PATIENCE, ROOT, until

FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    print(line, file=sys.stderr, end="", flush=True)
    if message.get("method") == "tools/call":
        for form in message["params"]["arguments"]["forms"]:
            print(json.dumps(form), flush=True)
    elif message.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}), flush=True)
    elif message.get("method") == "exit":
        sys.exit(0)
"""


class Session:
    """A client and a server around the gateway; a test reads both ends."""

    def __init__(self, gate_url: str, *options: str) -> None:
        env = os.environ | {"TOOLCARDS_URL": gate_url, "TOOLCARDS_AGENT_KEY": "tck_x", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "toolcards", "mcp", "--server", "shop", *options]
        self.process = subprocess.Popen(
            [*command, "--", sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
        )  # fmt: skip
        self.to_client: list[Any] = []
        self.to_server: list[Any] = []
        for stream, messages in ((self.process.stdout, self.to_client), (self.process.stderr, self.to_server)):
            threading.Thread(target=self._read, args=(stream, messages), daemon=True).start()

    @staticmethod
    def _read(stream: Any, messages: list[Any]) -> None:
        for line in stream:
            messages.append(json.loads(line))

    def write(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def initialize(self, **capabilities: Any) -> Any:
        """Return the capabilities that the server gets."""
        self.write(id=0, method="initialize", params={"capabilities": capabilities, "clientInfo": {"name": "cli"}})
        return until(lambda: [each for each in self.to_server if each.get("id") == 0])[0]["params"]["capabilities"]

    def show(self, *forms: Any) -> None:
        """Let the server send these messages during a call."""
        self.write(id=1, method="tools/call", params={"name": "read", "arguments": {"forms": forms}})

    def call(self, name: str) -> Any:
        """Call a tool of the server without forms; return its result."""
        self.write(id=9, method="tools/call", params={"name": name, "arguments": {"forms": []}})
        return until(lambda: [each for each in self.to_client if each.get("id") == 9])[0]["result"]

    def find_results(self) -> list[Any]:
        """Return the ids and results of the server's forms."""
        return [(each["id"], each["result"]) for each in self.to_server if str(each.get("id", "")).startswith("f")]


def make_form(number: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": FORM | params}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(effects={"elicitation/create": "ask"}, edited=FORM | {"answers": {"x": "a"}}) as running:
        yield running


@pytest.fixture
def opener(gate: Gate) -> Iterator[Any]:
    sessions: list[Session] = []

    def open_session(*options: str) -> Session:
        sessions.append(Session(gate.url, *options))
        return sessions[-1]

    yield open_session
    for session in sessions:
        assert session.process.stdin is not None
        session.process.stdin.close()
        session.process.wait(PATIENCE)


@pytest.mark.parametrize(
    ("options", "own", "declared", "is_ours"),
    [
        ((), {}, {"form": {}}, True),
        ((), {"elicitation": {}}, {}, False),
        ((), {"elicitation": {"form": {}}}, {"form": {}}, False),
        ((), {"elicitation": {"url": {}}}, {"url": {}, "form": {}}, True),
        (("--elicitation", "inbox"), {"elicitation": {}}, {"form": {}}, True),
        (("--elicitation", "client"), {}, None, False),
    ],
)
def test_the_gateway_takes_forms_that_the_client_cannot_show(
    opener: Any, options: Any, own: Any, declared: Any, is_ours: bool
) -> None:
    session = opener(*options)
    assert session.initialize(**own).get("elicitation") == declared
    session.show(make_form("f1"))
    if is_ours:
        assert until(session.find_results) == [("f1", {"action": "accept", "content": {"x": "a"}})]
    else:
        assert until(lambda: session.to_client)[0]["id"] == "f1"


def test_a_form_with_an_address_stays_with_the_client(opener: Any) -> None:
    session = opener()
    session.initialize(elicitation={"url": {}})
    session.show(make_form("f1", mode="url", url="https://example.com"))
    assert until(lambda: session.to_client)[0]["id"] == "f1"


def refuse(by: str) -> Any:
    return lambda stage, honest: plain({**honest, "decision": "deny", "by": {"kind": by}}) if stage == "poll" else None


@pytest.mark.parametrize(
    ("by", "action"), [("human", "decline"), ("timeout", "cancel"), ("kill_switch", "cancel"), ("rule", "cancel")]
)
def test_a_denial_of_a_person_declines_and_any_other_cancels(gate: Gate, opener: Any, by: str, action: str) -> None:
    gate.tamper = refuse(by)
    session = opener()
    session.initialize()
    session.show(make_form("f1"))
    assert until(session.find_results) == [("f1", {"action": action})]


@pytest.mark.slow
@pytest.mark.parametrize("edited", [None, FORM, FORM | {"answers": "a"}, FORM | {"answers": None}])
def test_an_approval_without_answers_cancels(gate: Gate, opener: Any, edited: Any) -> None:
    gate.edited = edited
    session = opener()
    session.initialize()
    session.show(make_form("f1"))
    assert until(session.find_results) == [("f1", {"action": "cancel"})]


def test_without_toolcards_a_form_is_canceled(opener: Any, gate: Gate) -> None:
    gate.effects["read"] = "allow"
    gate.tamper = lambda stage, honest: (
        Answer([b""]) if stage == "decide" and "elicitation" in json.dumps(honest["tool"]) else None
    )
    session = opener()
    session.initialize()
    session.show(make_form("f1"))
    assert until(session.find_results) == [("f1", {"action": "cancel"})]


def keep_waiting(stage: str, honest: Any) -> Answer | None:
    return plain({**honest, "decision": "ask"}) if stage == "poll" else None


def test_a_form_that_the_server_cancels_is_withdrawn(gate: Gate, opener: Any) -> None:
    gate.tamper = keep_waiting
    session = opener()
    session.initialize()
    cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "f1"}}
    session.show(make_form("f1"))
    until(lambda: "poll" in gate.stages())
    session.write(id=2, method="tools/call", params={"name": "read", "arguments": {"forms": [cancellation]}})
    until(lambda: "withdraw" in gate.stages())
    assert until(session.find_results) == [("f1", {"action": "cancel"})] and session.to_client == []


@pytest.mark.slow
def test_a_form_is_withdrawn_when_its_call_is_canceled_or_its_client_leaves(gate: Gate, opener: Any) -> None:
    gate.tamper = keep_waiting
    for end in ("cancel", "leave"):
        session = opener()
        session.initialize()
        before = gate.stages().count("withdraw")
        polls = gate.stages().count("poll")
        session.show(make_form("f1"))
        until(lambda polls=polls: gate.stages().count("poll") > polls)
        if end == "cancel":
            session.write(method="notifications/cancelled", params={"requestId": 1})
        else:
            session.write(method="exit")
        until(lambda before=before: gate.stages().count("withdraw") > before)


@pytest.mark.slow
def test_two_open_forms_of_one_id_are_asked_once(gate: Gate, opener: Any) -> None:
    session = opener()
    gate.tamper = keep_waiting
    session.initialize()
    session.show(make_form("f1"), make_form("f1"), make_form("f2"))
    until(lambda: gate.stages().count("poll") >= 2)
    gate.tamper = lambda stage, honest: None
    results = until(lambda: call_results if len(call_results := session.find_results()) == 3 else None)
    accepted = {"action": "accept", "content": {"x": "a"}}
    assert sorted(map(str, results)) == sorted(
        map(str, [("f1", {"action": "cancel"}), ("f1", accepted), ("f2", accepted)])
    )


def test_a_tool_with_the_reserved_name_of_forms_does_not_run(opener: Any) -> None:
    session = opener()
    session.initialize()
    result = session.call("elicitation/create")
    assert result["isError"] and "reserved" in result["content"][0]["text"]
    assert not [each for each in session.to_server if each.get("method") == "tools/call"]
