"""The picture of a timeline: few elements, no agent text unescaped, and nothing that a strict CSP refuses."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dashboard.cards.timeline.bars import TimeScale, lay_out
from dashboard.cards.timeline.lanes import TimedCall, build_lanes
from dashboard.cards.timeline.svg import render_picture
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import Card, CardTool, Milestones, ToolCallState

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
