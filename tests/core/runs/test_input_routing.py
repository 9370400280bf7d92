"""Which card an input or a result belongs to, rules 9 and 10: ids that come again, and replays."""

from __future__ import annotations

from tests.support.call_facts import ASK, OK, READY, START, delta
from tests.support.fact_samples import play
from toolcards.core.calls import facts as f


def test_rule_9_the_same_id_in_a_later_step_is_a_new_call() -> None:
    board = play(f.StepStarted(), START, READY, OK, f.StepStarted(), START, READY)
    assert [(card.occurrence, str(card.state)) for card in board.cards.values()] == [
        (1, "output-available"),
        (2, "input-available"),
    ]


def test_rule_9_where_ids_are_unique_per_thread_the_same_id_is_a_replay() -> None:
    once = f.InputStarted("c", "Bash")
    assert len(play(f.StepStarted(), once, OK, f.StepStarted(), once, OK).cards) == 1


def test_rule_9_a_later_attempt_is_a_new_call() -> None:
    again = f.InputReady("c", "Bash", {"q": 1}, True, attempt=2)
    assert len(play(READY, f.OutputFailed("c", "no"), again).cards) == 2


def test_rule_10_a_replayed_message_makes_no_second_cards() -> None:
    message = [f.MessageStarted(message_id="m"), f.StepStarted(), START, delta('{"q": 1}'), READY, OK, f.StepFinished()]
    second = [f.StepStarted(), START, READY]
    board = play(*message, *second)
    before = dict(board.cards)
    play(*message, *second, board=board)
    assert {n: (c.state, c.rev, c.input) for n, c in board.cards.items()} == {
        n: (c.state, c.rev, c.input) for n, c in before.items()
    }


def test_rule_10_a_replayed_result_stays_with_its_own_step() -> None:
    message = [f.MessageStarted(message_id="m"), f.StepStarted(), START, READY, OK, f.StepStarted(), START, READY]
    board = play(*message, *message[:5])
    assert [str(card.state) for card in board.cards.values()] == ["output-available", "input-available"]


def test_rule_10_a_resumed_message_continues_with_new_steps() -> None:
    first = [f.MessageStarted(message_id="m"), f.StepStarted(), READY, ASK, f.RunEnded()]
    board = play(*first, f.MessageStarted(message_id="m"), OK, f.StepStarted(), START, READY)
    assert [(card.step, str(card.state)) for card in board.cards.values()] == [
        (1, "output-available"),
        (2, "input-available"),
    ]
