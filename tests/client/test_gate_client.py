"""Claims whose answer is lost are sent again under one `claim_id`; results name the attempt that was allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import AWAY, Answer, Gate, answer_in_order, plain
from tests.support.server import PATIENCE
from toolcards.client import Toolcards, gate_client, gated

LOST_ANSWERS = [Answer([]), Answer([b"HTTP/1.1 200 OK\r\nContent-Le"]), AWAY, plain({}, status="429 Slow Down")]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.01)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"wipe": "deny"}) as running:
        yield running


@pytest.fixture
def cards(gate: Gate) -> Toolcards:
    return Toolcards(gate.url, "key", timeout=PATIENCE, keep_alive=False)


def bodies(gate: Gate, stage: str) -> list[dict[str, Any]]:
    return [body for now, body in gate.requests if now == stage]


@pytest.mark.parametrize("lost_answer", LOST_ANSWERS, ids=["closed", "half", "away", "throttled"])
def test_a_claim_whose_answer_is_lost_is_sent_again_unchanged(
    gate: Gate, cards: Toolcards, lost_answer: Answer
) -> None:
    gate.tamper = answer_in_order(lost_answer, None, stage="claim")
    assert cards.ask("r1", "c1", "bash", {}).allowed
    claims = bodies(gate, "claim")
    assert len(claims) == 2 and claims[0] == claims[1] and claims[0]["claim_id"]


def test_a_claim_whose_answers_are_all_lost_runs_nothing(gate: Gate, cards: Toolcards) -> None:
    gate.tamper = answer_in_order(Answer([]), stage="claim")
    assert not cards.ask("r1", "c1", "bash", {}).allowed
    assert len(bodies(gate, "claim")) == 3


def test_a_claim_that_was_refused_or_answered_wrongly_is_not_sent_again(gate: Gate, cards: Toolcards) -> None:
    for answer in (plain({}, status="410 Gone"), plain({"state": "claimed"})):
        gate.requests.clear()
        gate.tamper = answer_in_order(answer, stage="claim")
        assert not cards.ask("r1", "c1", "bash", {}).allowed
        assert len(bodies(gate, "claim")) == 1


def test_every_claim_has_an_id_of_its_own_so_a_permit_runs_one_call(gate: Gate, cards: Toolcards) -> None:
    decision = cards.decide("r1", "c1", "bash", {})
    assert cards.claim(decision).allowed and not cards.claim(decision).allowed
    assert len({claim["claim_id"] for claim in bodies(gate, "claim")}) == 2


def test_a_result_names_the_attempt_that_was_allowed(gate: Gate, cards: Toolcards) -> None:
    cards.ask("r1", "c1", "wipe", {})
    decision = cards.ask("r1", "c1", "bash", {}, attempt=2)
    cards.result("r1", "c1", output=1)
    cards.result("r1", "c1", output=1, attempt=decision.attempt)
    cards.result("r1", "c9", output=1)
    gated(cards, run="r1", tool="bash")(lambda: 1)()
    assert [body["attempt"] for body in bodies(gate, "result")] == [2, 2, 1, 1]


def test_a_result_of_a_call_written_again_names_its_second_attempt(gate: Gate, cards: Toolcards) -> None:
    def refuse_the_first(stage: str, honest: Any) -> Answer | None:
        if stage != "decide" or honest["attempt"] != 1:
            return None
        reason, places = {"code": "invalid_input", "text": "no"}, [{"pointer": "/a", "keyword": "type"}]
        return plain(honest | {"decision": "deny", "reason": reason, "places": places, "permit": None})

    gate.tamper = refuse_the_first
    decision = cards.ask("r1", "c1", "bash", {"a": 1}, reask=lambda problem: {"a": 2})
    assert decision.allowed and decision.args == {"a": 2} and decision.attempt == 2
    cards.result("r1", "c1", output=1)
    assert [body["attempt"] for body in bodies(gate, "result")] == [2]
