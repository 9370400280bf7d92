"""Calls that ask the user questions: the questions in their input, and the input with the answers.

The form is that of Claude Code's AskUserQuestion (2.1.329): `{questions: [{question, header, options: [{label,
description}], multiSelect}]}`. It reads the answers from `answers` of the same input: a text by the question's text,
several labels joined by a comma.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOOLS = frozenset({"AskUserQuestion"})
ANSWERS = "answers"  # the member of the input that holds the answers
POINTER = f"/{ANSWERS}"
MAX_QUESTIONS, MAX_OPTIONS = 20, 50


@dataclass(frozen=True, slots=True)
class Option:
    """One of the suggested answers."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. Any text is an answer; `is_multiple` allows several options."""

    text: str
    header: str = ""
    options: tuple[Option, ...] = ()
    is_multiple: bool = False


def read_questions(tool: str, value: Any) -> tuple[Question, ...]:
    """Return the questions of a call, () without readable questions."""
    questions = value.get("questions") if tool in TOOLS and isinstance(value, dict) else None
    if not isinstance(questions, list) or not 0 < len(questions) <= MAX_QUESTIONS or value.get(ANSWERS):
        return ()
    results = tuple(_read_question(question) for question in questions)
    texts = {question.text for question in results if question is not None}
    return tuple(question for question in results if question is not None) if len(texts) == len(questions) else ()


def add_answers(value: Mapping[str, Any], answers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the input with these answers by the text of their question."""
    return {**value, ANSWERS: {question: ", ".join(texts) for question, texts in answers.items()}}


def _read_question(value: Any) -> Question | None:
    if not isinstance(value, dict) or not isinstance(value.get("question"), str) or not value["question"]:
        return None
    options = value.get("options", [])
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        return None
    choices = tuple(Option(_get_text(each, "label"), _get_text(each, "description")) for each in options)
    if not all(option.label for option in choices):
        return None
    return Question(value["question"], _get_text(value, "header"), choices, value.get("multiSelect") is True)


def _get_text(value: Any, name: str) -> str:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
