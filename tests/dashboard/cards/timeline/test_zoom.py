"""The window of a zoomed timeline: what a query may say, and what the links lead to."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.timeline.zoom import TimeWindow
from toolcards.core.calls import facts as f
from toolcards.models import Run

NOW = 1_795_000_000_000


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (0, NOW), (NOW, 0), (NOW, NOW), (NOW, NOW - 1), (NOW, NOW + 5), (NOW, 10**15), (1, 10**18)],
)
def test_a_query_that_names_no_window_is_the_whole_run(start: int, end: int) -> None:
    assert TimeWindow.read(start, end) is None


@given(st.integers(NOW - 10**9, NOW), st.integers(20, 10**9))
def test_every_link_leads_to_a_window_again(start: int, length: int) -> None:
    window = TimeWindow.read(start, start + length)
    assert window is not None
    for neighbor in window.build_neighbors().values():
        assert TimeWindow.read(neighbor.start, neighbor.end) == neighbor


@given(st.floats(NOW / 1000 - 10**6, NOW / 1000), st.floats(0, 10**6))
def test_the_window_of_a_picture_holds_all_of_it(first: float, length: float) -> None:
    window = TimeWindow.around(first, first + length)
    assert window.first <= first and window.last >= first + length
    assert TimeWindow.read(window.start, window.end) == window


@given(st.integers(0, 10**18))
def test_a_length_that_follows_the_clock_is_bounded(milliseconds: int) -> None:
    length = TimeWindow.read_length(milliseconds)
    assert length in (0, milliseconds)
    if length:
        window = TimeWindow.ending(NOW / 1000, length)
        assert window.length == length and window.end == NOW and window.quarter >= 20
        assert TimeWindow.read_length(window.build_neighbors()["closer"].length)


pytestmark = pytest.mark.django_db


def a_long_run(a_run: Callable[..., Run], calls: int) -> None:
    facts = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(1, calls + 1)]
    a_run("long", *facts, f.OutputFailed("c5", "it broke"), f.OutputReady("c6", 1))


def test_a_long_run_has_an_overview_whose_columns_lead_to_a_part_of_the_timeline(
    viewer: Client, a_run: Callable[..., Run]
) -> None:
    a_long_run(a_run, 900)
    html = viewer.get("/runs/long/?tab=timeline").content.decode()
    overview = html.split("data-minimap")[1].split("</figure>")[0]
    assert overview.count("<a ") == 40 and "Calls 1 to 22: 1 done, 1 failed or denied, 20 open" in overview
    assert overview.count("<path") == 3
    assert "Calls 501 to 900 of 900" in html and 'rel="prev"' in html and "Later calls" not in html
    earlier = re.search(r'around=(\d+)" rel="prev"', html)
    assert earlier
    part = viewer.get(f"/runs/long/?tab=timeline&around={earlier[1]}").content.decode()
    assert "Calls 101 to 500 of 900" in part and "Later calls" in part
    assert "&amp;tab=head" in part  # what stands still is not drawn again
    first = viewer.get("/runs/long/?tab=timeline&around=1").content.decode()
    assert "Calls 1 to 400 of 900" in first and "Earlier calls" not in first
    assert viewer.get("/runs/long/?tab=timeline&around=99999").status_code == 200


def test_the_overview_can_be_read_as_a_table(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 900)
    html = viewer.get("/runs/long/?tab=timeline&table=1").content.decode()
    table = html.split('id="map-table"')[1].split("</table>")[0]
    rows = [re.sub(r"\s*<[^>]+>\s*", "|", row) for row in table.split("<tbody>")[1].split("</tr>")[:-1]]
    assert (
        len(rows) == 40
        and [word for word in ("Done", "Failed or denied", "Waiting", "Open") if word not in table] == []
    )
    assert re.findall(r"[^|]+", rows[0]) == ["1 to 22", "1", "1", "0", "20"]
    assert "data-minimap" not in html and html.count('<li><a href="/calls/') == 400 and "table=1&amp;around=" in html


def test_a_short_run_needs_no_overview(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 300)
    html = viewer.get("/runs/long/?tab=timeline").content.decode()
    assert "data-minimap" not in html and html.count('href="/calls/') >= 300
