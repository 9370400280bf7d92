"""The strip of a card: which phases it shows, and that they fill the line in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import duration_bar, rendering
from dashboard.cards.card_view import CardView
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import Card, Milestones, ToolCallState

S = ToolCallState


def parts_of(card: Card) -> list[str]:
    return [segment.part for segment in duration_bar.compute_segments(card)]


def test_a_waiting_call_shows_that_it_waits_wide_and_without_a_length() -> None:
    card = a_card(S.APPROVAL_REQUESTED, times=Milestones(started=10.0, available=12.0, requested=12.0))
    input_segment, waiting = duration_bar.compute_segments(card)
    assert (input_segment.part, input_segment.description) == ("write", "writing 2.0 s")
    assert (waiting.part, waiting.description) == ("wait", "waiting") and waiting.width >= 50


def test_a_call_that_was_never_written_slowly_waits_on_the_whole_line() -> None:
    (waiting,) = duration_bar.compute_segments(a_card(S.APPROVAL_REQUESTED, times=Milestones(requested=12.0)))
    assert (waiting.part, waiting.x, waiting.width) == ("wait", 0, 100)


def test_the_picture_of_a_waiting_call_says_so_to_screen_readers() -> None:
    view = CardView(a_card(S.APPROVAL_REQUESTED, times=Milestones(started=10.0, available=12.0, requested=12.0)))
    assert view.durations == "writing 2.0 s, waiting"


def test_a_call_that_stops_while_it_waits_has_waited_and_not_run() -> None:
    times = Milestones(started=1.0, available=2.0, requested=2.0, finished=9.0)
    card = a_card(S.OUTPUT_ERROR, times=times, soft=True, cause="aborted")
    segments = duration_bar.compute_segments(card)
    assert [segment.description for segment in segments] == ["writing 1.0 s", "waiting 7.0 s"]


def test_an_answered_call_shows_three_phases_and_a_denied_one_does_not_run() -> None:
    times = Milestones(started=1.0, available=2.0, requested=2.0, decided=5.0, finished=9.0)
    assert parts_of(a_card(S.OUTPUT_AVAILABLE, times=times)) == ["write", "wait", "run"]
    assert parts_of(a_card(S.OUTPUT_DENIED, times=times)) == ["write", "wait"]


MOMENTS = st.just(0.0) | st.floats(1.0, 1e10)


@given(state=st.sampled_from(list(S)), moments=st.tuples(*[MOMENTS] * 5), soft=st.booleans())
def test_the_segments_follow_each_other_within_the_line(state: S, moments: Any, soft: bool) -> None:
    names = ("started", "available", "requested", "decided", "finished")
    card = a_card(state, times=Milestones(**dict(zip(names, moments, strict=True))), soft=soft)
    end = 0.0
    for segment in duration_bar.compute_segments(card):
        assert segment.width > 0 and segment.x == pytest.approx(end, abs=0.11)
        end = segment.x + segment.width
    assert end <= 100.2


def test_a_waiting_card_draws_its_strip() -> None:
    html = rendering.CardCache().get_html(call_of(a_card(S.APPROVAL_REQUESTED, times=Milestones(requested=12.0))))
    assert '<rect class="wait"' in html and 'aria-label="waiting"' in html
