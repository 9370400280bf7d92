"""The view model of a card without anything."""

from __future__ import annotations

from dashboard.cards.card_view import CardView
from toolcards.core.calls.card import (
    Card,
)


def test_the_face_of_a_card_without_anything_is_calm() -> None:
    view = CardView(Card("x"))
    assert not (view.summary or view.input or view.output or view.error_facts or view.segments or view.votable)
