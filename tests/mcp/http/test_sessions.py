"""The sessions of the HTTP gateway: one for each id, bounded, and what a cancellation does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards
from toolcards.mcp import gate_link
from toolcards.mcp.http import sessions as sessions_module
from toolcards.mcp.http.sessions import GatewaySessions, pass_cancellations
from toolcards.mcp.session import Session


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as running:
        yield running


@pytest.fixture
def sessions(gate: Gate) -> Iterator[GatewaySessions]:
    created = GatewaySessions(Toolcards(gate.url, "key", timeout=PATIENCE), "files", "desk")
    yield created
    created.end_all()


def call(session: Session, number: Any = 1) -> None:
    """Let the server run a call."""
    request = {"id": number, "method": "tools/call", "params": {"name": "read"}}
    waiting_call = session.begin_call(request)
    assert waiting_call is not None and session.decide(waiting_call, request).request is not None


def make_cancellation(number: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}


def test_an_id_has_one_session_and_calls_without_one_share_one(sessions: GatewaySessions) -> None:
    assert sessions.get("a") is sessions.get("a") and sessions.get("") is sessions.get("")
    assert len({sessions.get(number).run for number in ("a", "b", "")}) == 3


def test_a_session_that_got_its_id_keeps_its_run(sessions: GatewaySessions) -> None:
    session = sessions.begin()
    sessions.adopt("a", session)
    assert sessions.get("a") is session
    sessions.adopt("a", sessions.begin())  # a server that gives an id twice takes over nothing
    assert sessions.get("a") is session


def test_an_ended_session_reports_its_end_and_its_id_is_free(sessions: GatewaySessions, gate: Gate) -> None:
    session = sessions.get("a")
    call(session)
    sessions.end("a")
    sessions.end("a")
    sessions.end("never there")
    assert [body["outcome"] for stage, body in gate.requests if stage == "result"] == ["aborted"]
    assert gate.stages().count("end") == 1 and sessions.get("a") is not session


def test_all_sessions_end_with_the_gateway(sessions: GatewaySessions, gate: Gate) -> None:
    for number in ("a", "b", ""):
        call(sessions.get(number))
    sessions.end_all()
    assert gate.stages().count("end") == 3


def test_sessions_end_at_once_however_slow_the_gate_is(
    sessions: GatewaySessions, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_link, "LINGER", PATIENCE)
    monkeypatch.setattr(sessions_module, "END_SECONDS", PATIENCE)
    all_end = threading.Barrier(3, timeout=PATIENCE / 2)

    def hold(stage: str, honest: Any) -> Answer | None:
        if stage == "end":
            all_end.wait()
        return None

    gate.tamper = hold
    for number in ("a", "b", ""):
        call(sessions.get(number))
    sessions.end_all()
    assert not all_end.broken


def test_of_too_many_sessions_the_one_that_was_used_longest_ago_ends(
    sessions: GatewaySessions, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MAX_SESSIONS", 2)
    first, second = sessions.get("a"), sessions.get("b")
    call(second)
    assert sessions.get("a") is first
    sessions.get("c")
    assert sessions.get("a") is first and gate.stages().count("end") == 1
    assert sessions.get("b") is not second


def test_many_threads_get_one_session(sessions: GatewaySessions) -> None:
    results: list[Session] = []
    threads = [threading.Thread(target=lambda: results.append(sessions.get("a"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(session) for session in results}) == 1


# ---------------------------------------------------------------- cancellations
def test_a_cancellation_goes_to_the_server_only_if_the_server_has_the_call(sessions: GatewaySessions) -> None:
    session = sessions.get("a")
    call(session)
    waiting_call = session.begin_call({"id": 2, "method": "tools/call", "params": {"name": "read"}})
    assert waiting_call is not None
    assert pass_cancellations(session, make_cancellation(2)) is None and waiting_call.is_cancelled
    assert pass_cancellations(session, make_cancellation(1)) == make_cancellation(1) and not session.has_open_calls()
    assert pass_cancellations(session, make_cancellation(7)) == make_cancellation(7)  # another request of the client
    assert pass_cancellations(session, PING) == PING


def test_a_batch_passes_without_the_cancellations_of_calls_that_wait(sessions: GatewaySessions) -> None:
    session = sessions.get("a")
    waiting_call = session.begin_call({"id": 2, "method": "tools/call", "params": {"name": "read"}})
    assert pass_cancellations(session, [make_cancellation(2), PING, make_cancellation(7)]) == [
        PING,
        make_cancellation(7),
    ]
    assert waiting_call is not None and waiting_call.is_cancelled
    assert pass_cancellations(session, [make_cancellation(2)]) is None and pass_cancellations(session, []) is None


@pytest.mark.parametrize("params", [{}, [], None, {"requestId": None}, {"requestId": {"a": 1}}])
def test_an_odd_cancellation_cancels_nothing(sessions: GatewaySessions, params: Any) -> None:
    session = sessions.get("a")
    call(session)
    message = {"method": "notifications/cancelled", "params": params}
    assert pass_cancellations(session, message) == message and session.has_open_calls()


def test_forms_stop_with_the_last_call_that_the_server_runs(sessions: GatewaySessions, gate: Gate) -> None:
    gate.effects["elicitation/create"] = "ask"
    gate.tamper = lambda stage, honest: None
    session = sessions.get("a")
    call(session, 1)
    call(session, 2)
    stop = threading.Event()
    session.elicitations._open["form"] = stop
    pass_cancellations(session, make_cancellation(1))
    assert not stop.is_set()  # it may belong to the other call
    pass_cancellations(session, make_cancellation(2))
    assert stop.is_set()
    session.elicitations._open.clear()
    until(lambda: gate.stages().count("result") == 2)
