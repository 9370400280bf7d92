"""Times and durations as HTML and as text: in UTC, from any source, and nothing for what is no time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.card_view import CardView
from dashboard.cards.times import compute_segments, format_clock, format_duration, format_iso, render_time
from tests.support.cards import a_card, call_of
from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.calls.card import Card, Milestones, ToolCallState

EPOCH = 1_795_502_789.125  # 2026-11-24 06:46:29.125 UTC
ROME = timezone(timedelta(hours=1))
HTML = (
    '<time datetime="2026-11-24T06:46:29.125Z" data-time="{}" title="24 Nov 2026 06:46:29 UTC">{}</time>'
)  # fmt: skip


@loop_over("value", [EPOCH, datetime.fromtimestamp(EPOCH, UTC), datetime.fromtimestamp(EPOCH, ROME)])
def test_a_time_has_its_moment_in_utc_whatever_it_comes_from(value: Any) -> None:
    assert render_time(value) == HTML.format("clock", "06:46:29")
    assert render_time(value, "age") == HTML.format("age", "24 Nov 06:46")
    assert format_clock(value) == "24 Nov 06:46:29 UTC"
    assert format_iso(value) == "2026-11-24T06:46:29Z"


@loop_over("value", [None, 0, 0.0, "", "yesterday", [], float("nan"), float("inf"), -1e30, 1e18, 10**400, {"a": 1}])
def test_what_is_no_time_is_nothing(value: Any) -> None:
    assert render_time(value) == format_clock(value) == format_iso(value) == ""


def test_a_form_that_is_no_word_stays_inside_of_its_attribute() -> None:
    html = str(render_time(EPOCH, '"><script>'))
    assert "<script>" not in html and "&quot;&gt;&lt;script&gt;" in html


@draw(100)
@given(st.floats(-6e10, 2.5e11))
def test_any_number_is_a_time_element_or_nothing(value: float) -> None:
    pattern = r'(<time datetime="\d{4}-\d\d-\d\dT[\d:.]{12}Z" data-time="clock" title="[\w :]+">[\d:]{8}</time>)?'
    assert re.fullmatch(pattern, str(render_time(value)))


@loop_over(
    ("seconds", "text"),
    [
        (-3, "0 ms"),
        (0, "0 ms"),
        (0.035, "35 ms"),
        (0.84, "0.8 s"),
        (0.0996, "100 ms"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (190, "3 min 10 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


S = ToolCallState


def parts_of(card: Card) -> list[str]:
    return [segment.part for segment in compute_segments(card)]


def test_a_waiting_call_shows_that_it_waits_wide_and_without_a_length() -> None:
    card = a_card(S.APPROVAL_REQUESTED, times=Milestones(started=10.0, available=12.0, requested=12.0))
    input_segment, waiting = compute_segments(card)
    assert (input_segment.part, input_segment.description) == ("write", "writing 2.0 s")
    assert (waiting.part, waiting.description) == ("wait", "waiting") and waiting.width >= 50


def test_a_call_that_was_never_written_slowly_waits_on_the_whole_line() -> None:
    (waiting,) = compute_segments(a_card(S.APPROVAL_REQUESTED, times=Milestones(requested=12.0)))
    assert (waiting.part, waiting.x, waiting.width) == ("wait", 0, 100)


def test_the_picture_of_a_waiting_call_says_so_to_screen_readers() -> None:
    view = CardView(a_card(S.APPROVAL_REQUESTED, times=Milestones(started=10.0, available=12.0, requested=12.0)))
    assert view.durations == "writing 2.0 s, waiting"


def test_a_call_that_stops_while_it_waits_has_waited_and_not_run() -> None:
    times = Milestones(started=1.0, available=2.0, requested=2.0, finished=9.0)
    card = a_card(S.OUTPUT_ERROR, times=times, soft=True, cause="aborted")
    segments = compute_segments(card)
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
    for segment in compute_segments(card):
        assert segment.width > 0 and segment.x == pytest.approx(end, abs=0.11)
        end = segment.x + segment.width
    assert end <= 100.2


def test_a_waiting_card_draws_its_strip() -> None:
    html = rendering.CardCache().get_html(call_of(a_card(S.APPROVAL_REQUESTED, times=Milestones(requested=12.0))))
    assert '<rect class="wait"' in html and 'aria-label="waiting"' in html
