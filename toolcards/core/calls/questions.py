"""Calls that ask the user questions: the questions in their input, and the input with the answers.

Claude Code's AskUserQuestion (2.1.329) has `{questions: [{question, header, options: [{label, description}],
multiSelect}]}`, and reads the answers from `answers` of the same input: a text by the question's text, several labels
joined by a comma. Forms of MCP servers (`elicitation`) get a value by the field's name there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcards.core.calls import elicitation
from toolcards.core.calls.elicitation import FormField

TOOLS = frozenset({"AskUserQuestion"})
ANSWERS = "answers"  # the member of the input that holds the answers
POINTER = f"/{ANSWERS}"
MAX_QUESTIONS, MAX_OPTIONS = 20, 200
MAX_LABEL, MAX_PROSE = 500, 4_000  # characters that are shown of a label, and of a longer text


@dataclass(frozen=True, slots=True)
class Option:
    """One of the suggested answers."""

    label: str
    description: str = ""
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `is_multiple` allows several options; `has_text` another text than the options.

    `field` is the form's field that it fills in.
    """

    text: str
    header: str = ""
    options: tuple[Option, ...] = ()
    is_multiple: bool = False
    has_text: bool = True
    is_required: bool = True
    hint: str = ""
    default: str = ""
    field: FormField | None = None


def is_form(tool: str) -> bool:
    """Return whether only a person's answer can complete the call."""
    return tool == elicitation.TOOL


def is_readable_form(tool: str, value: Any) -> bool:
    """Return whether the call is a form that can be shown."""
    return is_form(tool) and elicitation.read_fields(value) is not None


def read_message(tool: str, value: Any) -> str:
    """Return what a form says above its fields."""
    text = value.get(elicitation.MESSAGE) if is_form(tool) and isinstance(value, dict) else None
    return shorten(text, MAX_PROSE) if isinstance(text, str) else ""


def read_questions(tool: str, value: Any) -> tuple[Question, ...]:
    """Return the questions of a call, () without readable questions."""
    if not isinstance(value, dict) or value.get(ANSWERS):
        return ()
    if is_form(tool):
        return tuple(_read_field(each) for each in elicitation.read_fields(value) or ())
    questions = value.get("questions") if tool in TOOLS else None
    if not isinstance(questions, list) or not 0 < len(questions) <= MAX_QUESTIONS:
        return ()
    results = tuple(_read_question(question) for question in questions)
    texts = {question.text for question in results if question is not None}
    return tuple(question for question in results if question is not None) if len(texts) == len(questions) else ()


def add_answers(value: Mapping[str, Any], answers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the input with these answers by the text of their question."""
    return add_values(value, {question: ", ".join(texts) for question, texts in answers.items()})


def add_values(value: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input with these answers."""
    return {**value, ANSWERS: dict(values)}


def shorten(text: str, length: int) -> str:
    """Return the text, cut with a mark."""
    return text if len(text) <= length else f"{text[:length]}…"


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


def _read_field(each: FormField) -> Question:
    """Return the question that fills in a field of a form."""
    choices = each.choices or (((True, "Yes"), (False, "No")) if each.type == "boolean" else ())
    defaults = each.default if isinstance(each.default, list) else [each.default]
    options = tuple(
        Option(shorten(label, MAX_LABEL), is_default=any(value is d or (value == d and type(value) is type(d))
                                                         for d in defaults))
        for value, label in choices
    )  # fmt: skip
    is_text = not choices and isinstance(each.default, str | int | float)
    return Question(
        shorten(each.description or each.title, MAX_PROSE),
        header=shorten(each.title, MAX_LABEL) if each.description else "",
        options=options,
        is_multiple=each.type == "array",
        has_text=not choices,
        is_required=each.is_required,
        hint=each.hint,
        default=shorten(str(each.default), elicitation.MAX_TEXT) if is_text else "",
        field=each,
    )


def _get_text(value: Any, name: str) -> str:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
