"""Parts of a page: where a push puts a call, and what a page says that it shows already."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.page_parts import MAX_PARTS, NEW_PAGE, PageState, build_part, place_card, place_piece
from dashboard.cards.rendering import CardForm
from tests.support.cards import a_card, call_of
from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.calls.card import CardTool, ToolCallState
from toolcards.core.text.text_rope import Rope
from toolcards.models import ToolCall

CALL_NUMBERS = st.tuples(st.integers(1, 10**18 - 1), st.integers(1, 10**9 - 1), st.integers(0, 10**18 - 1))


def build_call(run: int, ordinal: int, seq: int) -> ToolCall:
    return ToolCall(run_id=run, ordinal=ordinal, seq=seq)


@draw(100)
@given(st.lists(CALL_NUMBERS, max_size=5, unique_by=lambda numbers: numbers[:2]))
def test_what_a_page_shows_is_read_from_its_address(numbers: list[tuple[int, int, int]]) -> None:
    calls = [build_call(*each) for each in numbers]
    page = PageState.read_calls(PageState.write_calls(calls))
    assert page == PageState(calls={call.public_id: call.seq for call in calls})


@loop_over(("text", "calls"), [
    ("", {}), ("x", {}), ("1-1", {}), ("1-1.", {}), ("1-1.5", {"1-1": 5}), ("1-1.x_2-3.4", {"2-3": 4}), ("1-1.-5", {}),
    ("_1-1.5_", {"1-1": 5}), ("1-1.5 ", {}), ("²-1.1", {}), ("٣-1.1", {}), ("9" * 19 + "-1.1", {}), ("1-1.1\n", {}),
    ("1-" + "9" * 10 + ".1", {}), ("1-1.5_1-1.7", {"1-1": 7}), ("1-1.5&board=now", {}),
])  # fmt: skip
def test_what_is_broken_in_an_address_is_left_out(text: str, calls: dict[str, int]) -> None:
    assert PageState.read_calls(text) == PageState(calls=calls)


def test_an_address_names_no_more_calls_than_a_page_shows() -> None:
    text = "_".join(f"1-{number}.1" for number in range(1, MAX_PARTS + 50))
    assert list(PageState.read_calls(text).calls) == [f"1-{number}" for number in range(1, MAX_PARTS + 1)]


def test_a_new_page_shows_nothing() -> None:
    assert PageState.read_calls("") == NEW_PAGE and NEW_PAGE.seq == 0


def test_a_part_says_what_goes_where() -> None:
    assert build_part("#a", "outerMorph", "<b>x</b>") == (
        '<hx-partial hx-target="#a" hx-swap="outerMorph"><b>x</b></hx-partial>'
    )


def test_a_call_is_placed_or_renewed_only_where_it_is() -> None:
    call = call_of(a_card(ToolCallState.OUTPUT_AVAILABLE))
    part, renewal = place_card(call), place_card(call, known_only=True)
    assert part.startswith('<hx-partial hx-target="#board" hx-swap="place"><') and "<article" in part
    assert renewal == part.replace('hx-swap="place"', 'hx-swap="renew"')
    assert place_card(call, CardForm.LISTED) != part


def test_a_call_that_was_removed_takes_its_place_away_everywhere() -> None:
    call = call_of(a_card(ToolCallState.OUTPUT_AVAILABLE))
    call.removed = True
    part = place_card(call, known_only=True)
    assert part == place_card(call) and 'hx-swap="place"' in part and "git push" not in part
    assert call.public_id in part


@loop_over(("old", "new", "piece"), [
    ("ab", "abcd", "cd"), ("ab", "ab<b>", "&lt;b&gt;"), ("ab", "ab\u202e", '<span class="mark">U+202E</span>'),
    ("ab", "ab", ""), ("a😀", "a😀é", "é"),
])  # fmt: skip
def test_a_piece_of_an_input_has_only_what_is_new(old: str, new: str, piece: str) -> None:
    before = a_card(ToolCallState.INPUT_STREAMING).replace(text=Rope(old), rev=2, seq=5)
    card = before.replace(text=Rope(new), rev=3, seq=8)
    part = place_piece(call_of(card), before, card)
    assert part.startswith('<hx-partial hx-target="#board" hx-swap="grow"><article id="c-')
    assert part.endswith(f' data-from="{len(old)}" data-size="{len(new)}">{piece}</article></hx-partial>')
    assert ' data-state="input-streaming" data-rev="3" data-seq="8"' in part and len(part) < 300


@loop_over(("old", "new", "changes"), [
    ("", "a", {}), ("ab", "xbc", {}), ("ab", "a", {}), ("ab\r", "ab\r\n", {}), ("a", "a" * 2_000, {}),
    ("ab", "abc", {"tool": CardTool("other")}), ("ab", "abc", {"anomalies": (("late-response", 1.0),)}),
])  # fmt: skip
def test_a_change_that_is_more_than_a_piece_needs_the_card(old: str, new: str, changes: dict[str, Any]) -> None:
    before = a_card(ToolCallState.INPUT_STREAMING).replace(text=Rope(old))
    card = before.replace(text=Rope(new), **changes)
    assert place_piece(call_of(card), before, card) == ""
