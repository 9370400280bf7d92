"""Recorded traffic of real libraries: the cards must end as the manifest says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import TRACES, Player, bodies, texts_of
from toolcards.core.calls import facts as f
from toolcards.core.calls.card_codec import dump_card
from toolcards.core.runs.run_state import RunState

RECORDED = [pytest.param(*rest, id=f"{name}/{scenario}") for name, scenario, *rest in bodies()]
BROKEN_RULES = {"protocol-violation", "conflicting-terminal", "late-response", "duplicate-terminal"}


def played(protocol: str, turns: list[Path]) -> Player:
    player = Player(protocol)
    for turn in turns:
        player.body(texts_of(turn))
    return player


@loop_over(("protocol", "turns", "payload"), RECORDED)
def test_a_recorded_scenario_ends_as_it_did(protocol: str, turns: list[Path], payload: dict[str, Any]) -> None:
    player = played(protocol, turns)
    by_wire = payload.get("by_wire", {})
    expected = {call: by_wire.get("calls", {}).get(call, record["final"]) for call, record in payload["calls"].items()}
    cards = [card for card in player.board.cards.values() if not card.removed]
    assert {card.call_id: card.state for card in cards} == expected
    assert len(cards) == len(expected)
    assert player.board.status == by_wire.get("status", payload["run"])
    assert player.skipped_kinds == []


@loop_over(("protocol", "turns", "payload"), RECORDED)
def test_a_recorded_scenario_survives_the_log(protocol: str, turns: list[Path], payload: dict[str, Any]) -> None:
    player, again = played(protocol, turns), RunState()
    for seq, (ordinal, fact) in enumerate(player.log, 1):
        loaded_fact = f.load(f.dump(fact), fact.at)
        assert loaded_fact == fact
        again.record(ordinal, loaded_fact, seq)
    assert again.cards == player.board.cards
    assert again.status == player.board.status
    assert again.context == player.board.context


@loop_over(("protocol", "turns", "payload"), RECORDED)
def test_a_recorded_scenario_breaks_no_rule_of_ours(protocol: str, turns: list[Path], payload: dict[str, Any]) -> None:
    for card in played(protocol, turns).board.cards.values():
        assert not BROKEN_RULES & {code for code, _ in card.anomalies}, dump_card(card)


@pytest.mark.parametrize(
    ("protocol", "turns", "payload"), [case for case in RECORDED if case.values[2]["rule"] in {"silent-deny"}]
)
def test_our_own_denial_closes_what_the_wire_leaves_open(
    protocol: str, turns: list[Path], payload: dict[str, Any]
) -> None:
    player = Player(protocol)
    player.body(texts_of(turns[0]))
    for call_id, record in payload["calls"].items():
        card = player.board.find(call_id)
        if card and card.waiting and card.approval:
            approved = record["final"] == "output-available"
            answer = f.ApprovalAnswered(call_id, approved, card.approval.source_id, by=f.Actor("human", "ann"))
            player.take(answer)
    player.body(texts_of(turns[1]))
    cards = {card.call_id: card for card in player.board.cards.values()}
    assert {call: card.state for call, card in cards.items()} == {c: k["final"] for c, k in payload["calls"].items()}
    assert player.board.status == payload["run"]
    assert not any(card.anomalies for card in cards.values())


def test_a_cancelled_question_ends_as_its_server_tells() -> None:
    """TanStack AI: a cancel neither approves nor denies. Our module reports it before the stream's error."""
    set_of, player = TRACES / "tanstack-ai", Player("tanstack")
    player.body(texts_of(set_of / "g2-approval-cancelled.turn1.sse"))
    resume = [{"interruptId": "approval_call_g2", "status": "cancelled"}]
    player.frames({"type": "CUSTOM", "name": "toolcards.request", "value": {"resume": resume}})
    player.body(texts_of(set_of / "g2-approval-cancelled.turn2.sse"))
    card = player.board.find("call_g2")
    assert card is not None and card.error is not None and card.approval is not None
    assert (card.state, card.error.message) == ("output-error", "Tool execution cancelled")
    assert (card.approval.state, card.anomalies, player.board.status) == ("cancelled", (), "finished")
