"""Timelines: every call in its lane, and parts that can be opened and left."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from django.test import Client

from dashboard.cards.timeline.bars import TimeScale, lay_out
from dashboard.cards.timeline.lanes import TimedCall, build_lanes
from dashboard.cards.timeline.timeline import render_picture
from tests.support.cards import a_card, call_of
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardTool, Milestones, ToolCallState
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


S = ToolCallState
HOSTILE = '<script>alert(1)</script>" onload="x" & {{ x }} \u202e\u200b\x00 </svg>'


def draw(cards: list[Card], *, now: float = 0) -> str:
    timed_calls = [TimedCall(call_of(card), card) for card in cards]
    scale = TimeScale(0.0, 500.0)
    lanes, bars, height = lay_out(build_lanes(timed_calls, "bot", 0.0, 500.0), scale, 500.0)
    return str(render_picture(lanes, bars, scale.list_ticks(0.0), height, now))


def make_cards(count: int, agents: int) -> list[Card]:
    states = (S.OUTPUT_AVAILABLE, S.OUTPUT_ERROR, S.OUTPUT_DENIED, S.APPROVAL_REQUESTED, S.INPUT_AVAILABLE)
    return [
        a_card(states[n % 5], agent_path=(f"agent {n % agents}",)).replace(
            call_id=f"c{n}", times=Milestones(started=float(n), available=n + 1.0, requested=n + 2.0, finished=n + 9.0)
        )
        for n in range(count)
    ]


def test_four_hundred_bars_take_few_elements_whatever_the_number_of_agents() -> None:
    for agents in (1, 7, 60, 400):
        svg = draw(make_cards(400, agents), now=1080)
        assert len(re.findall("<[a-z]", svg)) <= 1_080, agents
        assert svg.count("<a ") == 400


def test_each_texture_and_each_sign_is_one_path() -> None:
    svg = draw(make_cards(20, 2), now=1080)
    classes = re.findall('<path class="([^"]*)"', svg)
    assert len(classes) == len(set(classes))
    assert {"write", "wait", "run", "run bad", "glyph output-error", "glyph output-denied", "now"} <= set(classes)


def test_hostile_names_are_escaped_and_the_picture_is_well_formed() -> None:
    cards = [a_card(S.OUTPUT_AVAILABLE, tool=CardTool(HOSTILE), agent_path=("a", HOSTILE),
                    times=Milestones(started=1.0, finished=400.0))]  # fmt: skip
    svg = draw([*cards, *make_cards(3, 1)])
    assert "<script" not in svg and "\u202e" not in svg and "\x00" not in svg and "style=" not in svg
    root = ElementTree.fromstring(f"<svg>{svg}</svg>")
    assert not [element for element in root.iter() if "onload" in element.attrib]


def test_an_empty_picture_is_possible() -> None:
    assert "<a " not in draw([])
