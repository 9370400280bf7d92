"""The reviewer's part in a question, in words: that it is looking, what it answered, or why it did not."""

from __future__ import annotations

from typing import NamedTuple

from toolcards.core.calls.card import Card
from toolcards.core.review.review_question import find_asked_reviewer

_WORDS = {
    "allow": "Reviewer {} answered allow", "deny": "Reviewer {} answered deny", "ask": "Reviewer {} left it to people",
    "": "Reviewer {} did not answer",
}  # fmt: skip


class ReviewLine(NamedTuple):
    """A line of the card. `state`: looking, allow, ask, deny or failed; `prompt` is the digest of the prompt."""

    state: str
    words: str
    reason: str = ""
    note: str = ""
    prompt: str = ""


def describe_review(card: Card) -> ReviewLine | None:
    """Return the line of the card, None without a reviewer."""
    reviewer = find_asked_reviewer(card)
    if reviewer:
        return ReviewLine("looking", f"Reviewer {reviewer} is looking. You can answer meanwhile.")
    review = card.approval.review if card.approval else None
    if not review:
        return None
    answer = review["answer"]
    words = _WORDS.get(answer, _WORDS[""]).format(review["by"])
    return ReviewLine(answer or "failed", words, review["reason"], review["note"], review["prompt_sha256"])
