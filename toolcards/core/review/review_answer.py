"""The answer of a reviewer, read strictly: exactly one answer with a reason, or a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards.client.common.json_text import parse_strict_object

ANSWERS = ("allow", "ask", "deny")
MAX_REASON = 500  # characters that are kept
MAX_TEXT = 20_000  # characters of an answer


class InvalidReview(ValueError):
    """The reply is no answer."""


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """Allow, ask or deny, with the reason."""

    answer: str
    reason: str


def read_answer(text: str) -> ReviewAnswer:
    """Return the answer; raises InvalidReview.

    The text must be one JSON object with `answer` and `reason`.
    """
    if len(text) > MAX_TEXT:
        raise InvalidReview("The reply is too long.")
    try:
        reply = parse_strict_object(text.encode())
    except ValueError as error:
        raise InvalidReview("The reply is not one JSON object.") from error
    if reply.keys() != {"answer", "reason"}:
        raise InvalidReview("The reply does not have exactly the fields answer and reason.")
    answer, reason = reply["answer"], reply["reason"]
    if answer not in ANSWERS:
        raise InvalidReview("The answer is not allow, ask or deny.")
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidReview("The reason is missing.")
    return ReviewAnswer(answer, " ".join(reason.split())[:MAX_REASON])


def find_model_text(api: str, body: Any) -> str:
    """Return the text of a model's response in this API; raises InvalidReview."""
    try:
        text = body["choices"][0]["message"]["content"] if api == "openai" else _join_blocks(body["content"])
    except (KeyError, IndexError, TypeError) as error:
        raise InvalidReview("The response has no text.") from error
    if not isinstance(text, str):
        raise InvalidReview("The response has no text.")
    return text


def _join_blocks(blocks: list[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")
