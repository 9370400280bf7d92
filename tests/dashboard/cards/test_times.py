"""Times and durations as HTML and as text: in UTC, from any source, and nothing for what is no time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.times import format_clock, format_duration, format_iso, render_time
from tests.support.effort import draw
from tests.support.tables import loop_over

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
