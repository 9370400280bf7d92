"""Waiting for an approval: it ends in time, outlives a restart, and does not hammer the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_gate import AWAY, Answer, Gate, answer_in_order, plain
from tests.support.server import PATIENCE
from toolcards.client import Toolcards, gate_client
from toolcards.client.decisions import approval_wait


def asks(tamper: Callable[[str, Any], Answer | None]) -> Gate:
    return Gate({"bash": "ask"}, tamper=tamper)


def still_pending(stage: str, honest: Any) -> Answer | None:
    """Return an approval that stays pending."""
    pending = {"decision": "ask", "approval": {"id": "apr_1", "state": "pending"}, "permit": None}
    return plain(honest | pending) if stage == "poll" else None


def test_waiting_ends_after_the_given_seconds() -> None:
    with asks(still_pending) as gate:
        cards = Toolcards(gate.url, "key", timeout=PATIENCE)
        decision = cards.wait(cards.decide("r1", "c1", "bash", {}), seconds=0.3)
    assert (decision.effect, decision.code) == ("deny", "approval_expired")
    assert gate.stages()[-1] == "withdraw"


def test_a_question_that_is_asked_for_ever_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_wait, "LONGEST_WAIT", 0.3)
    with asks(still_pending) as gate:
        decision = Toolcards(gate.url, "key", timeout=PATIENCE).ask("r1", "c1", "bash", {})
    assert (decision.effect, decision.code) == ("deny", "approval_expired")


def test_a_server_that_does_not_hold_a_poll_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.25)
    with asks(still_pending) as gate:
        Toolcards(gate.url, "key", timeout=PATIENCE).ask("r1", "c1", "bash", {}, seconds=1)
    assert gate.stages().count("poll") < 10


def test_waiting_outlives_a_restart_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.05)
    with asks(answer_in_order(AWAY, Answer([]), Answer([b"HTTP/1.1 200 OK\r\nContent-Le"]), None)) as gate:
        cards = Toolcards(gate.url, "key", timeout=PATIENCE)
        assert cards.wait(cards.decide("r1", "c1", "bash", {}), seconds=PATIENCE).allowed


@pytest.mark.slow
def test_waiting_ends_when_the_server_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server accepts the request and then hangs: the client stops waiting, whatever the approval's time limit."""
    monkeypatch.setattr(approval_wait, "ASKED_PATIENCE", 0.5)
    for ask in (Toolcards.ask, lambda cards, *call: asyncio.run(cards.aask(*call))):
        with asks(answer_in_order(AWAY)) as gate:
            decision = ask(Toolcards(gate.url, "key", timeout=PATIENCE), "r1", "c1", "bash", {})
        assert (decision.effect, decision.code) == ("deny", "gate_unavailable")
        assert "has not answered" in decision.text
