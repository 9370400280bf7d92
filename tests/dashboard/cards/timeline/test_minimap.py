"""A long run at one glance: its columns lead to a part of the timeline."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from toolcards.core.calls import facts as f
from toolcards.models import Run

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
