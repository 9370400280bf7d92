"""Forms of a server over stdio: which messages the gateway takes, and what both sides get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, plain
from tests.support.mcp_forms import ACCEPTED, FILLED_IN, make_call, make_form, make_input_request, make_result
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards, gate_client
from toolcards.mcp.elicitation import CAPABILITIES
from toolcards.mcp.messages import list_spellings
from toolcards.mcp.session import Session
from toolcards.mcp.stdio import forms as forms_module
from toolcards.mcp.stdio.forms import StdioForms


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.01)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"elicitation/create": "ask"}, edited=FILLED_IN) as running:
        yield running


class Ends:
    """The forms of one server, and what was written to both sides."""

    def __init__(self, gate: Gate) -> None:
        self.session = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="shop")
        self.to_server, self.to_client = list[Any](), list[Any]()
        self.forms = StdioForms(self.session, lambda message: not self.to_server.append(message), self.to_client.append)

    def call(self, number: Any, **meta: Any) -> Any:
        """Let the client call a tool; return the request as the server gets it."""
        request = make_call(number, **meta)
        call = self.session.begin_call(request)
        assert call is not None
        self.session.decide(call, request)
        return self.forms.declare(request)

    def wait_for_server(self, count: int = 1) -> list[Any]:
        return until(lambda: self.to_server if len(self.to_server) >= count else None)


@pytest.fixture
def ends(gate: Gate) -> Iterator[Ends]:
    created = Ends(gate)
    yield created
    created.session.end()


def initialize(ends: Ends, **capabilities: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": capabilities}}
    return ends.forms.declare(message)


def keep_waiting(stage: str, honest: Any) -> Answer | None:
    return plain({**honest, "decision": "ask"}) if stage == "poll" else None


def make_cancellation(number: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


# ---------------------------------------------------------------- forms as requests
def test_a_form_is_answered_to_the_server_and_not_shown(ends: Ends) -> None:
    assert initialize(ends)["params"]["capabilities"] == {"elicitation": {"form": {}}}
    assert ends.forms.take(make_form("f1"))
    assert ends.wait_for_server() == [{"jsonrpc": "2.0", "id": "f1", "result": ACCEPTED}] and ends.to_client == []


@pytest.mark.parametrize("message", [
    make_form("f1", mode="url"), {"id": 1, "method": "sampling/createMessage"}, {"method": "elicitation/create"},
    make_result(1),
    make_cancellation("f1"), None, [make_form("f1")], "text", 5,
])  # fmt: skip
def test_other_messages_are_the_clients(ends: Ends, message: Any) -> None:
    initialize(ends)
    assert not ends.forms.take(message) and ends.to_server == []


def test_a_client_that_shows_forms_itself_gets_them(ends: Ends) -> None:
    assert initialize(ends, elicitation={})["params"]["capabilities"] == {"elicitation": {}}
    assert not ends.forms.take(make_form("f1"))


def test_a_form_that_the_server_cancels_is_withdrawn_and_its_cancellation_not_shown(ends: Ends, gate: Gate) -> None:
    gate.tamper = keep_waiting
    initialize(ends)
    ends.forms.take(make_form("f1"))
    until(lambda: "poll" in gate.stages())
    assert ends.forms.take(make_cancellation("f1")) and not ends.forms.take(make_cancellation("f2"))
    assert ends.wait_for_server()[0]["result"] == {"action": "cancel"} and "withdraw" in gate.stages()


# ---------------------------------------------------------------- forms in a response
def test_a_request_is_repeated_with_the_answers_and_its_result_gets_the_clients_id(ends: Ends) -> None:
    declared = ends.call("c")
    assert declared["params"]["_meta"][CAPABILITIES] == {"elicitation": {"form": {}}}
    assert ends.forms.take(make_input_request("c", "f", "g"))
    (again,) = ends.wait_for_server()
    assert re.fullmatch("c[0-9]+", again["id"]) and again["params"]["requestState"] == "s1"
    assert again["params"]["inputResponses"] == {"f": ACCEPTED, "g": ACCEPTED}
    assert again["params"]["arguments"] == {"a": 1} and again["method"] == "tools/call"
    assert ends.forms.owns(again["id"])
    result = make_result(again["id"])
    original = ends.forms.restore_id(result)
    assert original == make_result("c") and not ends.forms.take(original)
    assert ends.forms.restore_id(result) is result  # an id is restored once


@pytest.mark.parametrize("number", [7, "7", "c", "request-7", "6f1c2a53-9d3e-4b0e-8f5a-0c1d2e3f4a5b"])
def test_the_id_of_a_repeated_request_looks_like_the_clients_and_a_lenient_server_is_understood(
    ends: Ends, number: Any
) -> None:
    ends.call(number)
    assert ends.forms.take(make_input_request(number))
    (again,) = ends.wait_for_server()
    own_number = again["id"]
    assert type(own_number) is type(number) and own_number != number and "toolcards" not in str(own_number)
    assert re.sub("[0-9a-f]+", "", str(own_number)) in {re.sub("[0-9a-f]+", "", str(number)), str(number)}
    spelling = next(iter(list_spellings(own_number)), own_number)
    assert ends.forms.owns(spelling) and ends.forms.restore_id(make_result(spelling)) == make_result(number)
    assert not ends.forms.owns(own_number)


def test_a_request_may_be_repeated_again_but_not_for_ever(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms_module, "MAX_ROUNDS", 3)
    ends.call("c")
    response: Any = make_input_request("c")
    for count in (1, 2, 3):
        assert ends.forms.take(ends.forms.restore_id(response))
        response = make_input_request(ends.wait_for_server(count)[-1]["id"])
    assert not ends.forms.take(ends.forms.restore_id(response))  # the client decides
    assert not ends.forms.take(make_input_request("c")) and len(ends.to_server) == 3


@pytest.mark.parametrize("response", [
    make_result("c"), make_input_request("c", mode="url"), make_input_request("d"), {"id": "c", "error": {}},
    {"id": "c", "result": {"resultType": "input_required", "inputRequests": {}}},
])  # fmt: skip
def test_a_response_without_forms_for_the_inbox_is_the_clients(ends: Ends, response: Any) -> None:
    ends.call("c")
    assert ends.forms.restore_id(response) is response and not ends.forms.take(response)


def test_a_response_ends_what_the_gateway_remembers_of_its_request(ends: Ends) -> None:
    """An id may come again, then without the capability."""
    ends.call("c")
    assert not ends.forms.take(make_result("c"))
    assert not ends.session.elicitations.adopts(make_call("c"))
    assert not ends.forms.take(make_input_request("c"))


# ---------------------------------------------------------------- cancellation by the client
def test_a_request_that_the_client_cancels_is_not_repeated(ends: Ends, gate: Gate) -> None:
    gate.tamper = keep_waiting
    ends.call("c")
    ends.forms.take(make_input_request("c"))
    until(lambda: "poll" in gate.stages())
    assert ends.session.cancel("c")
    assert ends.forms.cancel(make_cancellation("c")) == make_cancellation("c")
    until(lambda: "withdraw" in gate.stages() and not ends.session.elicitations._open)
    ends.session.end()
    assert ends.to_server == []


def test_a_cancellation_of_a_repeated_request_names_the_servers_id(ends: Ends) -> None:
    ends.call("c")
    ends.forms.take(make_input_request("c"))
    (again,) = ends.wait_for_server()
    assert ends.forms.cancel(make_cancellation("c")) == make_cancellation(again["id"])
    assert ends.forms.cancel(make_cancellation("other")) == make_cancellation("other")


def test_forms_stop_only_with_the_last_call_that_the_server_runs(ends: Ends, gate: Gate) -> None:
    gate.tamper = keep_waiting
    initialize(ends)
    ends.call(1)
    ends.call(2)
    ends.forms.take(make_form("f1"))
    until(lambda: "poll" in gate.stages())
    ends.session.cancel(1)
    ends.forms.cancel(make_cancellation(1))
    (stop,) = ends.session.elicitations._open.values()
    assert not stop.is_set()  # it may belong to the other call
    ends.session.cancel(2)
    ends.forms.cancel(make_cancellation(2))
    assert ends.wait_for_server()[0]["result"] == {"action": "cancel"}


# ---------------------------------------------------------------- progress
def test_calls_behind_a_form_report_progress_until_it_is_answered(
    ends: Ends, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms_module, "PROGRESS", 0.01)
    gate.tamper = keep_waiting
    initialize(ends)
    ends.call(1, progressToken="t")
    ends.call(2)
    ends.forms.take(make_form("f1"))
    until(lambda: len(ends.to_client) >= 2)
    gate.tamper = lambda stage, honest: None
    ends.wait_for_server()
    assert {message["params"]["progressToken"] for message in ends.to_client} == {"t"}
    values = [message["params"]["progress"] for message in ends.to_client]
    assert values == sorted(set(values))
