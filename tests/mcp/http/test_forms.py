"""Forms of a server over HTTP: what the client gets, what the server gets, and how a wait ends."""

from __future__ import annotations

import email.message
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, plain
from tests.support.mcp_forms import ACCEPTED, FILLED_IN, make_call, make_form, make_input_request, make_result
from tests.support.mcp_http_server import HttpAnswer, McpHttpServer, stream
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards, gate_client
from toolcards.mcp.http import forms
from toolcards.mcp.http.forms import FormRelay
from toolcards.mcp.http.upstream import Upstream
from toolcards.mcp.session import HeldCall, Session


class Client:
    """The client's end of one request: what was written to it."""

    def __init__(self, accept: str = "application/json, text/event-stream") -> None:
        self.headers = email.message.Message()
        self.headers["Accept"] = accept
        self.headers["Content-Type"] = "application/json"
        self.headers["X-Client"] = "1"
        self.status, self.kind, self.data, self.has_ended, self.has_gone = 0, "", b"", False, False

    def begin_chunks(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.status, self.kind = status, dict(headers).get("Content-Type", "")

    def write_chunk(self, data: bytes) -> None:
        if self.has_gone:
            raise BrokenPipeError
        self.data += data

    def end_chunks(self) -> None:
        self.has_ended = True

    @property
    def messages(self) -> list[Any]:
        """The messages that it got."""
        if self.kind == "application/json":
            return [json.loads(self.data)]
        return [json.loads(line[6:]) for line in self.data.splitlines() if line.startswith(b"data: ")]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.01)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"elicitation/create": "ask"}, edited=FILLED_IN) as running:
        yield running


@pytest.fixture
def session(gate: Gate) -> Iterator[Session]:
    created = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="shop")
    yield created
    created.end()


def pass_on(
    session: Session, server: McpHttpServer, request: Any, client: Client, *, is_stream: bool = False, ours: bool = True
) -> HeldCall | None:
    """Send a request of the client to the server, and forward all that follows; return its call."""
    upstream, call = Upstream(server.url, {}), None
    if request is not None and request["method"] == "tools/call":
        call = session.begin_call(request)
        assert call is not None
        session.decide(call, request)
    message = session.elicitations.declare(request) if request is not None and ours else request
    response = upstream.request("POST", None if message is None else json.dumps(message).encode(), {})
    FormRelay(client, upstream, session, message, call, is_stream).pass_on(response)
    return call


def read_reports(gate: Gate) -> list[Any]:
    """Return the outcomes of the calls of tools."""
    return [body["outcome"] for stage, body in gate.requests if stage == "result"]


def keep_waiting(stage: str, honest: Any) -> Answer | None:
    return plain({**honest, "decision": "ask"}) if stage == "poll" else None


# ---------------------------------------------------------------- without forms
@pytest.mark.parametrize("kind", ["body", "events"])
def test_a_response_without_forms_passes_byte_by_byte_and_is_reported(session: Session, gate: Gate, kind: str) -> None:
    body = json.dumps(make_result(1), indent=3).encode()
    answer = HttpAnswer(body) if kind == "body" else stream({"method": "progress"}, make_result(1))
    client = Client()
    with McpHttpServer(answer) as server:
        pass_on(session, server, make_call(1), client)
    assert client.data == b"".join(answer.list_pieces()) and (client.status, client.kind) == (200, answer.kind)
    assert client.has_ended and until(lambda: read_reports(gate)) == ["ok"]


def test_a_body_is_an_event_where_the_stream_has_begun(session: Session) -> None:
    client = Client()
    client.kind = "text/event-stream"
    with McpHttpServer(HttpAnswer(make_result(1))) as server:
        pass_on(session, server, make_call(1), client, is_stream=True)
    assert client.messages == [make_result(1)] and client.status == 0 and client.has_ended


def test_an_error_of_the_server_ends_the_call(session: Session, gate: Gate) -> None:
    client = Client()
    with McpHttpServer(HttpAnswer(b"no", 503, "text/plain")) as server:
        pass_on(session, server, make_call(1), client)
    assert (client.status, client.data) == (503, b"no") and until(lambda: read_reports(gate)) == ["error"]
    assert not session.has_open_calls()


# ---------------------------------------------------------------- forms in a response
@pytest.mark.parametrize("kind", ["body", "events"])
def test_a_response_with_forms_is_answered_and_the_client_gets_the_result_under_its_id(
    session: Session, gate: Gate, kind: str
) -> None:
    client = Client()
    first = (
        HttpAnswer(make_input_request("c", "f", "g")) if kind == "body" else stream(make_input_request("c", "f", "g"))
    )
    with McpHttpServer(first, HttpAnswer()) as server:

        class Echo(HttpAnswer):
            def list_pieces(self) -> list[bytes]:
                return [json.dumps(make_result(server.requests[-1].message["id"])).encode()]

        server.answers[-1] = Echo()
        pass_on(session, server, make_call("c"), client)
        request, again = server.requests
    assert client.messages == [make_result("c")] and client.kind == "text/event-stream" and client.has_ended
    assert again.message["id"] != "c" and re.fullmatch("c[0-9]+", again.message["id"])  # as the client's look
    params = again.message["params"]
    assert params["inputResponses"] == {"f": ACCEPTED, "g": ACCEPTED} and params["requestState"] == "s1"
    assert params["arguments"] == request.message["params"]["arguments"] and again.headers["X-Client"] == "1"
    assert until(lambda: "ok" in read_reports(gate)) and sum(each.tool == "read" for each in gate.calls) == 2


def test_a_client_that_takes_no_events_waits_for_the_body(session: Session) -> None:
    client = Client("application/json")
    with McpHttpServer(HttpAnswer(make_input_request(1)), HttpAnswer(make_result(1))) as server:
        pass_on(session, server, make_call(1), client)
    assert client.kind == "application/json" and client.messages == [make_result(1)]


def test_forms_that_never_end_reach_the_client_at_last(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MAX_ROUNDS", 2)
    client = Client()
    with McpHttpServer(HttpAnswer(make_input_request(1))) as server:
        pass_on(session, server, make_call(1), client)
        assert len(server.requests) == 3
    assert client.messages == [make_input_request(1)]


@pytest.mark.parametrize("response", [
    make_input_request(1, mode="url"), {"id": 1, "result": {"resultType": "input_required", "inputRequests": {}}},
    {"id": 1, "result": {"resultType": "input_required", "inputRequests": {"f": {"method": "sampling/createMessage"}}}},
    make_input_request(2),
])  # fmt: skip
def test_what_a_person_cannot_answer_in_the_inbox_is_the_clients(session: Session, gate: Gate, response: Any) -> None:
    client = Client()
    with McpHttpServer(HttpAnswer(response)) as server:
        pass_on(session, server, make_call(1), client)
    assert client.messages == [response] and [each.tool for each in gate.calls] == ["read"]


def test_a_request_of_a_client_that_shows_forms_itself_is_left_alone(session: Session, gate: Gate) -> None:
    client = Client()
    with McpHttpServer(HttpAnswer(make_input_request(1))) as server:
        pass_on(session, server, make_call(1), client, ours=False)
    assert client.messages == [make_input_request(1)] and [each.tool for each in gate.calls] == ["read"]


# ---------------------------------------------------------------- forms as requests
@pytest.fixture
def initialized(session: Session) -> Session:
    session.elicitations.declare({"id": 0, "method": "initialize", "params": {"capabilities": {}}})
    return session


def test_a_form_on_the_stream_is_answered_to_the_server_and_not_shown(initialized: Session) -> None:
    client = Client()
    with McpHttpServer(stream({"method": "ping", "id": 3}, make_form("f1")), HttpAnswer(status=202)) as server:
        waiting = threading.Event()
        server.answers[0].body.append(b": the last piece\n\n")
        threading.Thread(
            target=lambda: (pass_on(initialized, server, None, client), waiting.set()), daemon=True
        ).start()
        assert waiting.wait(PATIENCE)
        answer = until(lambda: server.requests[1:])[0]
    assert answer.message["id"] == "f1" and answer.message["result"]["action"] in {"accept", "cancel"}
    assert client.messages == [{"method": "ping", "id": 3}] and b": the last piece" in client.data


def test_a_form_whose_stream_has_ended_is_withdrawn(initialized: Session, gate: Gate) -> None:
    gate.tamper = keep_waiting
    with McpHttpServer(stream(make_form("f1")), HttpAnswer(status=202)) as server:
        pass_on(initialized, server, None, Client())
        answer = until(lambda: server.requests[1:])[0]
    assert answer.message["result"] == {"action": "cancel"}
    assert not initialized.elicitations._open


# ---------------------------------------------------------------- waiting
class Waiting:
    """A call whose form waits, in a thread."""

    def __init__(self, session: Session, gate: Gate, server: McpHttpServer, client: Client, **meta: Any) -> None:
        gate.tamper = keep_waiting
        self.error: BaseException | None = None
        self._request = make_call(1, **meta)
        self._thread = threading.Thread(target=self._run, args=(session, server, client), daemon=True)
        self._thread.start()
        until(lambda: "poll" in gate.stages())

    def _run(self, session: Session, server: McpHttpServer, client: Client) -> None:
        try:
            pass_on(session, server, self._request, client)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("meta", [{}, {"progressToken": "t"}])
def test_a_client_that_waits_gets_signs_of_progress(
    session: Session, gate: Gate, monkeypatch: pytest.MonkeyPatch, meta: dict[str, Any]
) -> None:
    monkeypatch.setattr(forms, "PING", 0.01)
    client = Client()
    with McpHttpServer(HttpAnswer(make_input_request(1)), HttpAnswer(make_result(1))) as server:
        waiting = Waiting(session, gate, server, client, **meta)
        until(lambda: client.data.count(b"\n\n") >= 2)
        gate.tamper = lambda stage, honest: None
        waiting.end()
    *signs, result = client.messages
    assert result == make_result(1) and client.has_ended
    assert [sign["params"]["progressToken"] for sign in signs[:2]] == (["t", "t"] if meta else [])
    assert client.data.startswith(b"event: message\n" if meta else b": waiting\n\n")


def test_a_form_is_withdrawn_when_its_client_leaves(
    session: Session, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "PING", 0.01)
    client = Client()
    with McpHttpServer(HttpAnswer(make_input_request(1)), HttpAnswer(make_result(1))) as server:
        waiting = Waiting(session, gate, server, client)
        client.has_gone = True
        waiting.end()
        assert len(server.requests) == 1  # nothing is repeated
    assert isinstance(waiting.error, ConnectionError) and "withdraw" in gate.stages()


def test_a_form_of_a_canceled_call_is_withdrawn(session: Session, gate: Gate) -> None:
    client = Client()
    with McpHttpServer(HttpAnswer(make_input_request(1)), HttpAnswer(make_result(1))) as server:
        waiting = Waiting(session, gate, server, client)
        session.cancel(1)
        waiting.end()
        assert server.requests[1].message["params"]["inputResponses"] == {"f": {"action": "cancel"}}
    assert "withdraw" in gate.stages()
