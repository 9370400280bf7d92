"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dashboard.cards.times import format_clock, format_duration, format_iso, render_time

MORNING = datetime(2026, 11, 23, 6, 33, 9, 250_000, tzinfo=UTC)


def test_a_time_carries_its_moment_to_the_millisecond_and_its_form() -> None:
    assert render_time(MORNING) == (
        '<time datetime="2026-11-23T06:33:09.250Z" data-time="clock" title="23 Nov 2026 06:33:09 UTC">06:33:09</time>'
    )
    assert 'data-time="age"' in render_time(MORNING, "age") and ">23 Nov 06:33<" in render_time(MORNING, "age")


def test_a_form_cannot_leave_its_attribute() -> None:
    assert "<b>" not in render_time(MORNING, '"><b>')


def test_numbers_and_other_time_zones_are_shown_in_utc() -> None:
    elsewhere = MORNING.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert render_time(MORNING.timestamp()) == render_time(elsewhere) == render_time(MORNING)
    assert format_clock(elsewhere) == "23 Nov 06:33:09 UTC"
    assert format_iso(elsewhere) == "2026-11-23T06:33:09Z"


@pytest.mark.parametrize("value", [None, 0, "", "soon", 1e30, float("nan"), float("inf"), -1e30])
def test_a_value_that_is_no_time_is_shown_as_nothing(value: object) -> None:
    assert (render_time(value), format_clock(value), format_iso(value)) == ("", "", "")


@pytest.mark.parametrize(
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
