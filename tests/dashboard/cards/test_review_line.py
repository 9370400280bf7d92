"""The line of a card about its reviewer: looking, what it answered, or why it did not; and no HTML of a model."""

from __future__ import annotations

from dataclasses import replace

from dashboard.cards import rendering
from dashboard.cards.review_line import describe_review
from tests.support.cards import a_card, call_of
from tests.support.tables import loop_over
from toolcards.core.calls.card import Card, CardApproval, ToolCallState


def build_card(review: dict[str, str] | None, state: str = "approval-requested") -> Card:
    """Return a card whose question has a reviewer."""
    ask = CardApproval(opener="gate", terms={"review": "guard"}, review=review, votable=True)
    return Card("c", state=ToolCallState(state), approval=ask, input={}, has_input=True)


def review(answer: str, note: str = "") -> dict[str, str]:
    return {"by": "guard", "answer": answer, "reason": "<b>fine</b>", "note": note, "prompt_sha256": "ab" * 32}


@loop_over(
    ("answer", "state", "words"),
    [
        ("allow", "allow", "Reviewer guard answered allow"), ("deny", "deny", "Reviewer guard answered deny"),
        ("ask", "ask", "Reviewer guard left it to people"), ("", "failed", "Reviewer guard did not answer"),
    ],
)  # fmt: skip
def test_an_answer_is_a_line(answer: str, state: str, words: str) -> None:
    line = describe_review(build_card(review(answer, "Too late.")))
    assert line == (state, words, "<b>fine</b>", "Too late.", "ab" * 32)


def test_a_question_shows_that_its_reviewer_is_looking() -> None:
    line = describe_review(build_card(None))
    assert line is not None and (line.state, line.words.split(".")[0]) == ("looking", "Reviewer guard is looking")
    assert describe_review(build_card(None, "output-denied")) is None and describe_review(Card("c")) is None


def test_the_card_of_any_state_has_the_line_and_no_html_of_a_model() -> None:
    for state in (ToolCallState.APPROVAL_REQUESTED, ToolCallState.APPROVAL_RESPONDED):
        card = a_card(state)
        assert card.approval is not None
        reviewed_card = card.replace(approval=replace(card.approval, review=review("allow", "It is <i>high</i> risk.")))
        html = rendering.render_uncached(call_of(reviewed_card))
        assert 'data-review="allow"' in html and "prompt abababab" in html, state
        assert "&lt;b&gt;fine&lt;/b&gt;" in html and "&lt;i&gt;high&lt;/i&gt;" in html
        assert "data-review" not in rendering.render_uncached(call_of(card))
