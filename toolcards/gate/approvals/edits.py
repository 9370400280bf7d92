"""Edits of a waiting call's input by people: which parts may change, and what the policy says to the edited call."""

from __future__ import annotations

import json
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.client.common.json_diff import diff
from toolcards.core import input_repair
from toolcards.core.calls import elicitation, questions
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import AskTerms, Effect
from toolcards.core.redaction.masks import has_mask
from toolcards.gate.decisions.evaluation import reevaluate_call
from toolcards.gate.decisions.preflight import get_offered_tools
from toolcards.gate.refusals import InvalidRequest
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models import Approval


def accept_edit(edited_input: Any, memory: RunMemory, row: Approval, card: Card, terms: AskTerms, now: float) -> None:
    """Accept the edited input; raises InvalidRequest.

    Only editable parts may change, and policy must not deny the edited call.
    """
    if has_mask(edited_input) and not has_mask(card.input):
        raise InvalidRequest("A masked value cannot be moved to another place.", code="invalid_edit")
    try:
        sha256 = digest(edited_input)
    except NotCanonical as error:
        raise InvalidRequest(f"The edited input cannot be used: {error}", code="invalid_edit") from error
    if sha256 == row.args_sha256:
        raise InvalidRequest("Nothing was edited.", code="invalid_edit")
    if type(edited_input) is not type(card.input):
        raise InvalidRequest("The edited input must be of the same JSON type.", code="invalid_edit")
    changed_pointers = [change.pointer for change in diff(card.input, edited_input)]
    editable = _list_editable(card, terms)
    barred_pointers = [
        p for p in changed_pointers if not any(p == e or p.startswith(f"{e}/") or e == "" for e in editable)
    ]
    if barred_pointers or not editable:
        raise InvalidRequest("These parts cannot be edited.", code="invalid_edit", detail={"pointers": barred_pointers})
    is_form = questions.is_form(card.tool.name)
    if is_form:
        _check_answers(edited_input)
    trouble = None if is_form else input_repair.check(card.tool.name, edited_input, get_offered_tools(memory))
    if trouble is not None:
        message = trouble.message(get_offered_tools(memory))
        raise InvalidRequest(f"The edited input does not match the tool’s schema: {message}", code="invalid_edit")
    decision = reevaluate_call(memory, card.replace(input=edited_input, has_input=True), now)
    # Nothing runs, and no rule denies it.
    is_unruled = is_form and row.opener == "agent" and decision.code in {"default", "unknown_tool"}
    if decision.effect == Effect.DENY and not is_unruled:
        raise InvalidRequest("The policy denies the edited call.", code="invalid_edit")
    row.edited = json.dumps(edited_input)


def _list_editable(card: Card, terms: AskTerms) -> tuple[str, ...]:
    """Return the pointers that may change: of a form only the answers, of other questions the answers as well."""
    if questions.is_form(card.tool.name):
        return (questions.POINTER,)
    has_questions = bool(questions.read_questions(card.tool.name, card.input))
    return (*terms.editable, questions.POINTER) if has_questions else terms.editable


def _check_answers(edited_input: Any) -> None:
    """Raise InvalidRequest unless the answers fit the form."""
    try:
        elicitation.check_answers(edited_input, edited_input.get(questions.ANSWERS))
    except elicitation.InvalidAnswer as error:
        raise InvalidRequest(str(error), code="invalid_answer") from error
