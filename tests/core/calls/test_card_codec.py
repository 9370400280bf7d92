"""Stored cards."""

from __future__ import annotations

import pytest

from tests.support.fact_samples import WAYS, play
from toolcards.core.calls.card_codec import dump_card, load_card


@pytest.mark.parametrize("way", [way for way in WAYS if way != "none"])
def test_a_stored_card_is_the_same_card(way: str) -> None:
    card = play(*WAYS[way]).find("c")
    assert card is not None
    assert load_card(dump_card(card)) == card
    assert dump_card(card).isascii()
