"""The view model of a card without anything."""

from __future__ import annotations

from dashboard.cards.card_view import CardView
from toolcards.core.calls.card import Card, CardApproval


def test_the_face_of_a_card_without_anything_is_calm() -> None:
    view = CardView(Card("x"))
    assert not (view.summary or view.input or view.output or view.error_facts or view.segments or view.votable)


def test_a_question_says_how_its_agent_gets_a_late_answer() -> None:
    def describe(**visit: object) -> str:
        return CardView(Card("x", agent_path=("Cline",), approval=CardApproval(terms=visit))).return_visit

    assert describe() == ""
    assert describe(asks_again={"after": 45.0, "by_person": False}) == "After 45 s, the agent asks again by itself"
    assert describe(asks_again={"after": 90.0, "by_person": True}) == "After 90 s, tell Cline to try again"
    approved = CardApproval(state="approved", terms={"asks_again": {"after": 90.0, "by_person": True}})
    assert CardView(Card("x", approval=approved)).delivery.endswith("tell the agent to try again.")
