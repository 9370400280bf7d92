"""Ropes, JSON comparison, stored cards and the catalog of tool kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fact_samples import WAYS, play
from toolcards.client.common.json_text import format_text, is_same_json, parse
from toolcards.client.common.tool_kinds import display_kind, find_kind, list_own_tools
from toolcards.core.calls import card as lifecycle
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import KINDS
from toolcards.core.calls.card_codec import dump_card, load_card
from toolcards.core.runs.run_state import RunState
from toolcards.core.text.text_rope import Rope


@given(st.lists(st.text(max_size=5)), st.integers(0, 30))
def test_a_rope_is_its_pieces(pieces: list[str], size: int) -> None:
    rope = Rope()
    for piece in pieces:
        rope = rope.plus(piece)
    whole = "".join(pieces)
    assert (str(rope), len(rope), rope) == (whole, len(whole), Rope(whole))
    assert rope.head(size) == whole[:size]
    assert whole.endswith(rope.tail(size))
    assert len(rope.tail(size)) >= min(size, len(whole))


def test_a_rope_handed_out_never_changes() -> None:
    old = Rope("a")
    left, right = old.plus("b"), old.plus("c")
    assert [str(old), str(left), str(right), str(left.plus("d"))] == ["a", "ab", "ac", "abd"]


@pytest.mark.parametrize("text", ["", "{", "NaN", "-Infinity", "1e999", "[" * 100_000, "{} {}"])
def test_what_is_not_json_is_not_parsed(text: str) -> None:
    assert parse(text) == (False, None)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(1, 1.0, True), (1, True, False), (0, False, False), (None, False, False), ("1", 1, False), ([1], [1.0], True),
     ({"a": [True]}, {"a": [1]}, False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ([], {}, False),
     ("", None, False)],
)  # fmt: skip
def test_same_is_same_as_json(a: Any, b: Any, equal: bool) -> None:
    assert is_same_json(a, b) is equal


def test_bottomless_values_are_handled() -> None:
    one: Any = []
    two: Any = []
    for _ in range(50_000):
        one, two = [one], [two]
    assert is_same_json(one, two) is False
    assert isinstance(format_text(one), str)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "none"])
def test_a_stored_card_is_the_same_card(way: str) -> None:
    card = play(*WAYS[way]).find("c")
    assert card is not None
    assert load_card(dump_card(card)) == card
    assert dump_card(card).isascii()


def test_an_unknown_fact_type_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fact type"):
        f.load('{"type":"tomorrow"}')


def test_a_name_can_make_a_call_more_dangerous_but_never_less() -> None:
    assert find_kind("get_and_delete_user") == "delete"
    assert display_kind("delete_user", "read") == "delete"
    assert (find_kind("get_user"), display_kind("get_user")) == ("other", "read")
    assert display_kind("frobnicate", "nonsense") == "other"
    assert {find_kind(tool) for tool in list_own_tools()} <= set(KINDS)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every copy of a card made while the test runs."""
    created: list[str] = []
    replace = lifecycle.Card.replace

    def counted(self: lifecycle.Card, **changes: Any) -> lifecycle.Card:
        created.append(",".join(changes))
        return replace(self, **changes)

    monkeypatch.setattr(lifecycle.Card, "replace", counted)
    yield created


@pytest.mark.parametrize("deltas", [10, 1_000, 10_000])
def test_a_delta_costs_one_copy_of_the_card_however_many_came_before(copies: list[str], deltas: int) -> None:
    board = play(f.InputStarted("c", "Bash"))
    copies.clear()
    for _ in range(deltas):
        play(f.InputDelta("c", "y"), board=board)
    assert len(copies) == deltas
    assert len(board.cards[1].text) == deltas


def test_deltas_share_one_list_of_pieces() -> None:
    board = play(f.InputStarted("c", "Bash"), f.InputDelta("c", "x"))
    first = board.cards[1].text._pieces
    play(*(f.InputDelta("c", "y") for _ in range(500)), board=board)
    assert board.cards[1].text._pieces is first


def test_finding_an_open_question_does_not_depend_on_the_order_of_loading() -> None:
    board = play(f.InputReady("c", "Bash"), f.ApprovalRequested("c", "q1"), f.InputReady("d", "Bash"))
    again = RunState(board.context, reversed(board.cards.values()))
    assert list(again.cards) == [1, 2]
    assert again.route(f.ApprovalAnswered("", True, "q1")) == board.route(f.ApprovalAnswered("", True, "q1"))
