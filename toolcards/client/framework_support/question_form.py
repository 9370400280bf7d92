"""Questions of an agent that a person answers in the inbox: the form, and what was answered.

A form is a call named `elicitation/create` whose input is `{message, requestedSchema}`. The gate asks a person whatever
policy allows, and adds `answers` to the input. Nothing runs: the answer itself is the call's result.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..calls import FORM, Call
from ..decisions.answers import Decision
from ..stream import Run

__all__ = ["FormAnswer", "ask_form", "ask_form_now", "build_form"]

MAX_MESSAGE, MAX_OPTION, MAX_OPTIONS = 4_000, 400, 100  # what the inbox shows; longer options are written by hand
CHOICE, TEXT = "choice", "answer"  # the fields of a form
QUESTION_NAMES = ("question", "message", "prompt", "query", "text")  # arguments that usually hold the question
OPTION_NAMES = ("options", "choices", "suggestions")
NOT_ANSWERED = "No person answered."
ONLY_WATCHED = "No one was asked, because this run is watched, not gated."


@dataclass(frozen=True)
class FormAnswer:
    """The answer to a form: the person's text, or why it is missing."""

    text: str
    is_given: bool


def build_form(tool: str, args: Any, description: str = "") -> dict[str, Any]:
    """Return the form for the question in a tool's arguments.

    Strings in `options` or `choices` become options; another text can be written in their place. `description` is what
    the app shows to people.
    """
    fields = args if isinstance(args, Mapping) else {}
    question = next((fields[name] for name in QUESTION_NAMES if _is_text(fields.get(name))), "")
    parts = [description, question if question not in description else ""]
    message = "\n\n".join(part for part in parts if part) or f"{tool} {json.dumps(args, ensure_ascii=False)}"
    options: list[str] = next(filter(None, (_read_options(fields.get(name)) for name in OPTION_NAMES)), [])
    text: dict[str, Any] = {"type": "string", "title": "Another answer" if options else "Answer", "minLength": 1}
    choice: dict[str, Any] = {"type": "string", "title": "Answer", "enum": options}
    properties = {CHOICE: choice, TEXT: text} if options else {TEXT: text}
    schema = {"type": "object", "properties": properties, "required": [] if options else [TEXT]}
    return {"message": message[:MAX_MESSAGE], "requestedSchema": schema}


def ask_form_now(run: Run, form: dict[str, Any], seconds: float | None = None) -> FormAnswer:
    """Return a person's answer to the form; waits for it."""
    if not run.gate:
        return FormAnswer(ONLY_WATCHED, False)
    call = _begin(run)
    return _read_answer(call, call.decision_now(form, seconds=seconds))


async def ask_form(run: Run, form: dict[str, Any], seconds: float | None = None) -> FormAnswer:
    """Do the same in async code."""
    if not run.gate:
        return FormAnswer(ONLY_WATCHED, False)
    call = _begin(run)
    return _read_answer(call, await call.decision(form, seconds=seconds))


def _begin(run: Run) -> Call:
    return run.call(FORM, f"form-{uuid.uuid4().hex[:12]}")


def _read_answer(call: Call, decision: Decision) -> FormAnswer:
    """Return the answer in a decision, and report it as the result of the form."""
    if not decision.allowed:
        return FormAnswer(decision.text or NOT_ANSWERED, False)
    answers = decision.args.get("answers") if decision.edited and isinstance(decision.args, dict) else None
    answers = answers if isinstance(answers, dict) else {}
    call.output({"action": "accept", "content": answers})
    text = next((answers[name] for name in (TEXT, CHOICE) if _is_text(answers.get(name))), "")
    return FormAnswer(text or NOT_ANSWERED, bool(text))


def _read_options(value: Any) -> list[str]:
    """Return the options, [] if they cannot be shown as buttons."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_OPTIONS:
        return []
    labels = [str(label) for each in value if _is_text(label := each.get("label") if isinstance(each, dict) else each)]
    is_usable = len(labels) == len(value) == len(set(labels)) and max(map(len, labels)) <= MAX_OPTION
    return labels if is_usable else []


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
