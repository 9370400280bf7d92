"""Answers to an agent's questions: the fields of the form, read as the arguments that the agent gets."""

from __future__ import annotations

from dataclasses import replace

from django.http import QueryDict

from toolcards.core.calls.questions import Question, add_answers, read_questions
from toolcards.gate import Ballot, InvalidRequest
from toolcards.models import ToolCall

ANSWER = "answer"  # the decision of the form; for the gate it is an edit that adds the answers
MAX_LENGTH = 4_000  # characters of one answer


def convert_answers(ballot: Ballot, call: ToolCall, fields: QueryDict) -> Ballot:
    """Return the vote that carries the answers.

    Raises InvalidRequest unless every question has one.
    Fields: `answer-0` is the index of an option of the first question, `answer-0-text` a text instead, or in
    addition where several options may be chosen.
    """
    card = call.as_card()
    questions = read_questions(card.tool.name, card.input)
    if not questions:
        raise InvalidRequest("This call asks no question.", code="invalid_vote")
    answers = {question.text: _read_answer(question, index, fields) for index, question in enumerate(questions)}
    return replace(ballot, decision="edit", edited_args=add_answers(card.input, answers))


def _read_answer(question: Question, index: int, fields: QueryDict) -> list[str]:
    chosen = {int(value) for value in fields.getlist(f"answer-{index}") if value.isascii() and value.isdigit()}
    labels = [option.label for number, option in enumerate(question.options) if number in chosen]
    text = fields.get(f"answer-{index}-text", "").strip()
    if len(text) > MAX_LENGTH:
        raise InvalidRequest(f"An answer has at most {MAX_LENGTH:,} characters.", code="invalid_vote")
    if text:
        return [*labels, text] if question.is_multiple else [text]
    if not labels or (len(labels) > 1 and not question.is_multiple):
        raise InvalidRequest(f"Choose an answer to: {question.text}", code="answer_required")
    return labels
