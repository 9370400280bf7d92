"""Laws of a run: what holds for every order of facts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fact_samples import play
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.card_codec import dump_card, load_card
from toolcards.core.runs.run_state import RunContext, RunState

S = ToolCallState


QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


ids = st.sampled_from(["c1", "c2", "c3"])


lanes = st.sampled_from(["", "", "sub"])


scopes = st.sampled_from(["", "", "r1", "r2"])


sources = st.sampled_from(["", "q1", "q2"])


ours = st.sampled_from(["", "a1", "a2"])


tools = st.sampled_from(["Bash", "Read", ""])


flags = st.booleans()


pieces = st.sampled_from(["", "{", '{"q":', "1}", "{}", '"', "\x00\ud800", "nonsense"])


values = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, "", "text", "\udfff", "An error occurred."]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=4,
)


bys = st.sampled_from([f.Actor("host"), f.Actor("human", "alice"), f.Actor("rule", "r"), f.Actor("timeout")])


texts = st.sampled_from(["", "no", "An error occurred."])


approvals = st.sampled_from(["claimed", "succeeded", "failed", "unknown", "cancelled", "pending"])


facts: st.SearchStrategy[Any] = st.one_of(
    st.builds(f.InputStarted, ids, tools, lane=lanes, per_step=flags, kind=tools), st.builds(f.InputDelta, ids, pieces),
    st.builds(f.InputDelta, ids, pieces),
    st.builds(f.InputChunk, st.sampled_from(["", "", "c1", "c2"]), tools, pieces, lanes),
    st.builds(f.InputReady, ids, tools, values, flags, per_step=flags, lane=lanes, attempt=st.integers(1, 2)),
    st.builds(f.InputInvalid, ids, tools, values, texts, per_step=flags),
    st.builds(f.InputRepaired, ids, tools, values, values),
    st.builds(f.PolicyDecided, ids, st.sampled_from(["allow", "ask"]), by=bys, would=st.just([{"effect": "deny"}])),
    st.builds(f.ApprovalRequested, ids, sources, automatic=flags, tool=tools, input=values),
    st.builds(f.ApprovalRequested, ids, id=ours, opener=st.just("gate")),
    st.builds(f.ApprovalRequested, st.just(""), sources, tool=tools, input=values),
    st.builds(f.ApprovalAnswered, ids, flags, sources, ours, texts, bys, values, flags),
    st.builds(f.ApprovalAnswered, st.just(""), flags, sources), st.builds(f.ApprovalChanged, ids, approvals, ours),
    st.builds(f.OutputPartial, ids, values), st.builds(f.OutputReady, ids, values, st.sampled_from(["", "m1"])),
    st.builds(f.OutputFailed, ids, texts, retryable=st.sampled_from([None, True, False])),
    st.builds(f.OutputDenied, ids, texts, bys),
    st.builds(f.OutcomeReported, st.sampled_from(["", "c1", "c2"]),
              st.sampled_from(["failed", "denied", "interrupted"]), st.sampled_from(["", "m1"])),
    st.builds(f.SnapshotReceived, ids, values, st.sampled_from([None, "", "boom"])),
    st.builds(f.CallClosed, ids, st.sampled_from(["expired", "superseded", "cancelled"])),
    st.builds(f.ManualOutcomeRecorded, ids, st.sampled_from(["succeeded", "failed"]), texts, bys),
    st.builds(f.RetryChanged, ids, st.sampled_from(["granted", "dismissed", "used"]), bys),
    st.builds(f.AnomalyRecorded, ids, st.just("ungoverned")), st.builds(f.RunStarted, scope=scopes, agent=texts),
    st.builds(f.MessageStarted, message_id=st.sampled_from(["", "m1", "m2"])),
    st.builds(f.LaneStarted, lane=st.just("sub"), name=texts, parent_call=ids),
    st.builds(f.StepStarted, step=st.sampled_from([None, None, 1, 2])), st.builds(f.StepFinished),
    st.builds(f.StepReset), st.builds(f.TextDelta, text=texts, lane=lanes), st.builds(f.ErrorReported, message=texts),
    st.builds(f.RunEnded, st.just(""), st.sampled_from(get_args(f.Outcome)), texts, scopes, lanes, flags),
)  # fmt: skip


stories = st.lists(facts, min_size=1, max_size=25)


ENDS_ALL = {"aborted", "error", "truncated", "not-executed"}


def live(story: list[Any]) -> tuple[RunState, list[tuple[int, str, int]]]:
    """Play the story; check each step; return the board and its log."""
    board, log = RunState(), []
    for fact in story:
        scope = getattr(fact, "scope", "") or board.context.scope
        for ordinal, routed in board.route(fact):
            seq = len(log) + 1
            log.append((ordinal, f.dump(routed), seq))
            before = board.cards.get(ordinal)
            after, applied = board.record(ordinal, routed, seq)
            if before is not None and after is not None:
                never_backwards(before, after, routed)
            assert not applied or ordinal == 0 or board.cards[ordinal] is after
        if isinstance(fact, f.RunEnded):
            ended_well(board, fact, scope)
    return board, log


def never_backwards(before: Card, after: Card, fact: f.AnyFact) -> None:
    assert after.rev >= before.rev
    assert after.seq >= before.seq
    assert (after.call_id, after.ordinal, after.occurrence) == (before.call_id, before.ordinal, before.occurrence)
    if before.hard and after.state is not before.state:
        assert before.state is S.OUTPUT_AVAILABLE
        assert isinstance(fact, (f.OutcomeReported, f.SnapshotReceived))
    if before.hard:
        assert after.state in {S.OUTPUT_AVAILABLE, S.OUTPUT_ERROR, S.OUTPUT_DENIED}
    if after.state is S.INPUT_STREAMING:
        assert before.state in {None, S.INPUT_STREAMING}


def ended_well(board: RunState, fact: f.RunEnded, scope: str) -> None:
    for card in board.cards.values():
        mine = card.lane == fact.lane if fact.lane else card.scope == scope
        if not mine or card.removed:
            continue
        assert card.state is not S.INPUT_STREAMING
        if fact.outcome in ENDS_ALL:
            assert card.state is not S.INPUT_AVAILABLE
            assert not card.preliminary
        assert not (card.waiting and card.approval and card.approval.opener == "gate")


@pytest.mark.slow
@QUICK
@given(stories)
def test_a_log_read_back_makes_the_same_board(story: list[Any]) -> None:
    board, log = live(story)
    again = RunState()
    for ordinal, text, seq in log:
        again.record(ordinal, f.load(text), seq)
    assert again.cards == board.cards
    assert again.context == board.context
    assert again.status == board.status


@pytest.mark.slow
@QUICK
@given(stories)
def test_a_stored_board_is_the_same_board_and_continues_the_same_way(story: list[Any]) -> None:
    half = len(story) // 2
    board, _ = live(story[:half])
    stored_state = RunState(
        RunContext(**asdict(board.context)), [load_card(dump_card(card)) for card in board.cards.values()]
    )
    assert stored_state.cards == board.cards
    for fact in story[half:]:
        routed = board.route(fact)
        assert stored_state.route(fact) == routed
        for ordinal, part in routed:
            assert stored_state.record(ordinal, part) == board.record(ordinal, part)
    assert stored_state.status == board.status


@QUICK
@given(facts)
def test_every_fact_survives_the_log(fact: Any) -> None:
    if not isinstance(fact, f.InputChunk):
        text = f.dump(fact)
        assert text.isascii()
        assert f.load(text) == fact


@pytest.mark.slow
@QUICK
@given(stories)
def test_a_card_whose_text_is_stored_apart_is_the_same_card(story: list[Any]) -> None:
    for card in live(story)[0].cards.values():
        assert load_card(dump_card(card, with_text=False), str(card.text)) == card


def test_finding_an_open_question_does_not_depend_on_the_order_of_loading() -> None:
    board = play(f.InputReady("c", "Bash"), f.ApprovalRequested("c", "q1"), f.InputReady("d", "Bash"))
    again = RunState(board.context, reversed(board.cards.values()))
    assert list(again.cards) == [1, 2]
    assert again.route(f.ApprovalAnswered("", True, "q1")) == board.route(f.ApprovalAnswered("", True, "q1"))
