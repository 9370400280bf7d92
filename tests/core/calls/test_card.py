"""What a card costs: one copy for each delta, however many came before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fact_samples import play
from toolcards.core.calls import card as lifecycle
from toolcards.core.calls import facts as f


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every copy of a card made while the test runs."""
    created: list[str] = []
    replace = lifecycle.Card.replace

    def count_changes(self: lifecycle.Card, **changes: Any) -> lifecycle.Card:
        created.append(",".join(changes))
        return replace(self, **changes)

    monkeypatch.setattr(lifecycle.Card, "replace", count_changes)
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
