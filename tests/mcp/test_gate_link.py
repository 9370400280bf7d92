"""The link to the gate after a question: the wait ends with the client, reports keep their order and never block."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import AWAY, Answer, Gate, plain
from tests.support.server import PATIENCE, until
from tests.support.silent_server import Hole
from toolcards.client import Decision, Toolcards
from toolcards.mcp import gate_link
from toolcards.mcp.gate_link import Reports, wait_for_answer


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"mail": "ask"}) as running:
        yield running


@pytest.fixture
def cards(gate: Gate) -> Toolcards:
    return Toolcards(gate.url, "key", timeout=PATIENCE)


def keep_waiting(stage: str, honest: Any) -> Answer | None:
    return plain({**honest, "decision": "ask"}) if stage == "poll" else None


def test_a_final_decision_is_not_waited_for(gate: Gate, cards: Toolcards) -> None:
    decision = cards.decide("r1", "c1", "read", {})
    assert wait_for_answer(cards, decision, lambda: False) is decision and gate.stages() == ["decide"]


def test_the_answer_of_a_person_is_returned(cards: Toolcards) -> None:
    assert wait_for_answer(cards, cards.decide("r1", "c1", "mail", {}), lambda: False).allowed


def test_a_wait_ends_when_the_client_leaves(gate: Gate, cards: Toolcards) -> None:
    gate.tamper = keep_waiting
    decision = cards.decide("r1", "c1", "mail", {})
    assert wait_for_answer(cards, decision, lambda: "poll" in gate.stages()) is decision
    assert wait_for_answer(cards, decision, lambda: True) is decision


# ---------------------------------------------------------------- reports
def list_results(gate: Gate) -> list[Any]:
    return [body["output"] for stage, body in gate.requests if stage == "result"]


def test_reports_arrive_in_order_and_then_the_end(gate: Gate, cards: Toolcards) -> None:
    reports = Reports(cards, "r1")
    for number in range(20):
        reports.add(f"c{number}", output=number)
    reports.close()
    assert list_results(gate) == [*range(20)] and gate.stages()[-1] == "end"


def test_a_session_without_a_call_reports_no_end(gate: Gate, cards: Toolcards) -> None:
    """It has no run that anybody could see."""
    Reports(cards, "r1").close()
    assert gate.requests == []


def test_a_session_with_a_call_and_no_result_reports_its_end(gate: Gate, cards: Toolcards) -> None:
    reports = Reports(cards, "r1")
    reports.begin()
    reports.begin()
    reports.close()
    assert gate.stages() == ["end"]


def test_a_quiet_session_sends_heartbeats(gate: Gate, cards: Toolcards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_link, "BEAT", 0.01)
    reports = Reports(cards, "r1")
    reports.begin()
    until(lambda: len(gate.requests) >= 2)
    reports.close()
    assert set(gate.stages()) == {"missing", "end"}  # this gate knows no heartbeats


def test_a_report_is_sent_again_while_the_server_is_away(gate: Gate, cards: Toolcards) -> None:
    answers = iter([AWAY, AWAY, None])
    gate.tamper = lambda stage, honest: next(answers, None) if stage == "result" else None
    reports = Reports(cards, "r1")
    reports.add("c1", output=1)
    reports.add("c2", output=2)
    until(lambda: len(list_results(gate)) == 4)
    reports.close()
    assert set(list_results(gate)) == {1, 2} and "end" in gate.stages()


def test_the_end_of_a_session_is_not_held_up_by_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_link, "LINGER", 0.1)
    monkeypatch.setattr(gate_link, "MAX_WAITING", 3)
    with Hole() as hole:
        reports = Reports(Toolcards(hole.url, "key", timeout=PATIENCE), "r1")
        reports.add("c1", output=1)
        until(lambda: hole.swallowed)  # the first report is on its way
        for number in range(10):  # more than may wait: dropped, and no one is held up
            reports.add(f"c{number}", output=number)
        end = threading.Event()
        began = time.monotonic()
        threading.Thread(target=lambda: (reports.close(), end.set()), daemon=True).start()
        assert end.wait(PATIENCE / 2) and time.monotonic() - began < PATIENCE / 2


def test_a_decision_that_is_not_waiting_needs_no_server() -> None:
    cards = Toolcards("http://127.0.0.1:9", "key")
    deny = Decision("deny", call_id="c1")
    assert wait_for_answer(cards, deny, lambda: False) is deny
