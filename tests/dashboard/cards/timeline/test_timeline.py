"""Timelines: every call in its lane, and parts that can be opened and left."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.test import Client

from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


def test_a_timeline_draws_every_call_in_its_lane(viewer: Client, a_run: Callable[..., Run]) -> None:
    facts = [f.LaneStarted(lane="sub", name="helper")]
    facts += [f.InputReady(f"c{n}", "Read", {"n": n}, True, lane="sub" if n == 3 else "") for n in range(4)]
    a_run("drawn", *facts, f.OutputReady("c0", 1), f.OutputFailed("c1", "no"))
    html = viewer.get("/runs/drawn/?tab=timeline").content.decode()
    picture = html.split('id="timeline"')[1]
    assert picture.count('<a href="/calls/') == 4 and "4 calls, 2 agents" in picture
    assert picture.count('class="glyph output-available"') == 1 and picture.count('class="glyph output-error"') == 1


def test_a_part_of_the_timeline_can_be_opened_and_left(viewer: Client, a_run: Callable[..., Run]) -> None:
    address = "/runs/zoomed/?tab=timeline"
    a_run("zoomed", f.InputReady("c0", "Read", {}, True), f.OutputReady("c0", 1))
    time.sleep(0.1)
    run = a_run("zoomed", f.InputReady("c1", "Read", {}, True))
    whole = viewer.get(address).content.decode()
    assert "2 calls, 1 agent" in whole and "data-whole" not in whole
    begin = ToolCall.objects.get(run=run, ordinal=2).as_card().times.available
    later = int(begin * 1000) - 20
    html = viewer.get(f"{address}&start={later}&end={later + 900}").content.decode()
    assert "1 call, 1 agent, 0.9 s" in html and "data-whole" in html and f'data-start="{later}"' in html
    assert "&amp;tab=head" in html  # what stands still is not drawn again
    empty = viewer.get(f"{address}&start={later - 9000}&end={later - 8000}").content.decode()
    assert "No calls at this time" in empty and "data-whole" in empty
    assert "2 calls" in viewer.get(f"{address}&start=9&end=x").content.decode()


def test_the_latest_part_of_an_active_run_follows_the_clock(viewer: Client, a_run: Callable[..., Run]) -> None:
    address = "/runs/open/?tab=timeline"
    a_run("open", f.InputReady("c0", "Read", {}, True))
    assert "Zoom in on now" in viewer.get(address).content.decode()
    html = viewer.get(f"{address}&latest=60000").content.decode()
    assert "1 call, 1 agent, 60 s" in html or "1 call, 1 agent, 1 min" in html
    assert "data-moving" in html and "&amp;tab=timeline&amp;latest=60000" in html and "data-leads-to" in html
    assert "latest=30000" in html and "latest=120000" in html and "&amp;end=" in html
    for nonsense in ("0", "x", "19", str(10**17), "-5"):
        assert "data-whole" not in viewer.get(f"{address}&latest={nonsense}").content.decode()
    a_run("open", f.RunEnded())
    over = viewer.get(f"{address}&latest=60000").content.decode()
    assert "data-moving" not in over.split("<main")[1] and "1 call" in over and "data-leads-to" not in over
