"""The answer of a reviewer, read strictly: exactly one answer with a reason, or a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from toolcards.client.common.json_text import parse_strict_object
from toolcards.core.calls import questions
from toolcards.core.calls.card import Card
from toolcards.core.policy.changes.harms import HarmCondition
from toolcards.core.policy.evaluation_context import EvaluationContext, OverBudget
from toolcards.core.policy.matching.touch_condition import TouchCondition
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import AskTerms
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import FALSE
from toolcards.core.review import review_question
from toolcards.core.risk.assessment import assess_risk

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


# When a reviewer may not approve: it can still deny the call, or leave it to people.
_DECODER = re.compile(r"\bbase(?:32|64)\b[^|;&]*\s--?d|\bxxd\b[^|;&]*\s-\w*r|\bopenssl\b[^|;&]*\s-d\b|\bb64decode\b")
_TOUCHES = TouchCondition((), frozenset({"secrets", "private-address"}), every=False)


def explain_limit(card: Card, visible: Card, request: PolicyRequest, terms: AskTerms, reviewer: str) -> str:
    """Return why only people can approve the call, or "".

    `visible` is the masked card, of which the reviewer sees the call.
    """
    call = review_question.build_call(visible)
    is_high = terms.severity in {"high", "critical"} or assess_risk(card, visible).level == "high"
    if is_high or is_dangerous(request):
        return "This call is high risk, so only people can approve it."
    if max(terms.quorum, terms.deny_quorum) > 1 or terms.reauth or terms.reason == "always":
        return "The rule sets terms that only people can meet."
    if _asks_person(card):
        return "The call asks a question that only people can answer."
    if visible.shown_input != card.shown_input or not card.has_input:
        return "Part of the call is hidden from the reviewer, so only people can approve it."
    if len(review_question.dump_call(call)) > review_question.MAX_SIZE:
        return "The call is too large for the reviewer, so only people can approve it."
    if review_question.addresses_reviewer(call, reviewer):
        return "The call has text for a reviewer, so only people can approve it."
    return ""


def is_dangerous(request: PolicyRequest) -> bool:
    """Return whether the call does harm or may touch secrets.

    A call that is too large to tell counts as dangerous.
    """
    context = EvaluationContext(request)
    try:
        is_harmful = bool(HarmCondition(frozenset()).actual(context))
        return is_harmful or _TOUCHES.check(context, None) is not FALSE or _runs_encoded_text(context)
    except OverBudget:
        return True


def _runs_encoded_text(context: EvaluationContext) -> bool:
    """Return whether a command runs a text that it decodes, or that it pipes into a shell or an interpreter."""
    hidden_scripts = [script for script in context.scripts(()) or () if script is not None and script.hidden]
    segments = [segment for script in hidden_scripts for segment in script.segments]
    return any(map(_reads_program, segments)) or any(_DECODER.search(segment.text) for segment in segments)


def _reads_program(segment: CommandSegment) -> bool:
    """Return whether it runs what it reads from its input: `… | sh`, `… | python3 -`."""
    has_operand = any(not word.startswith("-") for word in segment.words[1:])
    return segment.hidden and not segment.opaque and not has_operand


def _asks_person(card: Card) -> bool:
    name: Any = card.tool.name
    return questions.is_form(name) or bool(questions.read_questions(name, card.input))
