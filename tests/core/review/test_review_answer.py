"""Only exactly one answer with a reason is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.review.review_answer import ANSWERS, InvalidReview, ReviewAnswer, find_model_text, read_answer

NO_ANSWERS = [
    "", "allow", "null", "[]", '"allow"', '{"answer": "allow"}', '{"reason": "x"}', '{"answer": "allow", "reason": ""}',
    '{"answer": "Allow", "reason": "x"}', '{"answer": "yes", "reason": "x"}', '{"answer": true, "reason": "x"}',
    '{"answer": ["allow"], "reason": "x"}', '{"answer": "allow", "reason": 1}',
    '{"answer": "allow", "reason": "x", "a": 1}',
    '{"answer": "deny", "reason": "x", "answer": "allow"}', '{"answer": "allow", "reason": "x"} Done.',
    '```json\n{"answer": "allow", "reason": "x"}\n```', 'Sure: {"answer": "allow", "reason": "x"}',
    r'{"answer": "allow", "reason": "\ud800"}', r'{"answer": "deny", "reason": "so \udfff"}',
    '{"answer": "ask", "reason": "x"}{"answer": "allow", "reason": "x"}', "[" * 10_000, " " * 30_000,
]  # fmt: skip


@loop_over("text", NO_ANSWERS)
def test_anything_else_is_no_answer(text: str) -> None:
    with pytest.raises(InvalidReview):
        read_answer(text)


@given(st.sampled_from(ANSWERS), st.text(min_size=1))
def test_an_answer_is_read_with_its_reason(answer: str, reason: str) -> None:
    text = json.dumps({"answer": answer, "reason": f"x{reason}"})
    assert read_answer(f"\n{text} ") == ReviewAnswer(answer, " ".join(f"x{reason}".split())[:500])


@given(st.text())
def test_no_text_is_taken_for_an_answer_by_accident(text: str) -> None:
    with pytest.raises(InvalidReview):
        read_answer(text)


def test_the_text_of_a_model_is_where_its_api_has_it() -> None:
    assert find_model_text("openai", {"choices": [{"message": {"content": "a"}}]}) == "a"
    assert find_model_text("anthropic", {"content": [{"type": "text", "text": "a"}]}) == "a"


@loop_over("body", [{}, None, [], {"choices": []}, {"choices": [{"message": {"content": None}}]}, {"content": [{}]}, 1])
def test_a_response_without_text_is_no_answer(body: Any) -> None:
    for api in ("openai", "anthropic"):
        with pytest.raises(InvalidReview):
            read_answer(find_model_text(api, body))
