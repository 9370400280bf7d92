"""Checks the server's answers against the question; anything but a clear allow for it is a deny.

The fields of an answer are in docs/api.md, section Gating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..common.canonical_json import digest
from .question import CallRequest, Tool

__all__ = ["AnswerMismatch", "Decision", "Denied", "check_answer", "check_claim", "get_allowed_tool", "make_denial"]

EFFECTS = ("allow", "deny", "ask")
LONGEST_TEXT = 8_000  # characters of a reason that reach the model

TOO_LARGE = 413  # the status for arguments beyond the server's limit


class Denied(Exception):
    """The call may not run; the message can be given to the model."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.text or "This call was denied.")
        self.decision = decision


class AnswerMismatch(Exception):
    """The answer does not match the question; the message names the difference."""


@dataclass(frozen=True)
class Decision:
    """The answer to one question: `effect` is allow, deny or ask (waiting for a person)."""

    effect: str
    call_id: str = ""
    code: str = ""
    text: str = ""
    by: str = ""
    args_sha256: str = ""
    approval: str = ""
    permit: str = ""
    args: Any = None  # the input to run if a person, a repair or a plugin changed it (`edited`)
    edited: bool = False
    tool: str = ""  # the tool to run if a repair corrected its name
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    question: CallRequest | None = field(default=None, repr=False, compare=False)  # the question that it answers

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.effect == "allow"

    @property
    def attempt(self) -> int:
        """The attempt that it answers; results name it as well."""
        return self.question.attempt if self.question is not None else 1

    @property
    def waiting(self) -> bool:
        """Whether a person still has to answer."""
        return self.effect == "ask"


def describe_refusal(message: str) -> str:
    """Return the text of a deny for arguments that the server refuses."""
    return f"The arguments cannot be evaluated: {message}"


def deny_unasked(error: Exception, call_id: str) -> Decision:
    """Return the deny of a call that could not be submitted."""
    if getattr(error, "status", 0) == TOO_LARGE:
        return make_denial(describe_refusal(str(error)), call_id, "invalid_args")
    return make_denial(f"The gate gave no decision, so the call did not run: {error}", call_id)


def make_denial(text: str, call_id: str = "", code: str = "gate_error") -> Decision:
    """Return a deny made by the client, without a clear answer."""
    return Decision("deny", call_id=call_id, code=code, text=text, by="client")


def check_answer(answer: Any, question: CallRequest, kind: str = "decision") -> Decision:
    """Return the server's answer as a Decision.

    A deny if it does not match the question.
    `kind` is how it arrived: `decision` (of `decide`), `poll` (of `approvals/{id}`) or `message` (over a socket).
    """
    try:
        return _read_decision(answer, question, kind)
    except AnswerMismatch as error:
        return make_denial(f"The gate's answer is not valid, so the call did not run: {error}", question.call_id)


def check_claim(answer: Any, decision: Decision) -> Decision:
    """Return the allow of a claimed permit with its arguments.

    A deny if the answer differs.
    """
    question = decision.question
    assert question is not None
    try:
        _check_claim_fields(answer, decision, question)
    except AnswerMismatch as error:
        return make_denial(
            f"The gate's answer to the claim is not valid, so the call did not run: {error}", decision.call_id
        )
    return replace(decision, permit="", args=answer["args"], raw=answer)


def _read_decision(answer: Any, question: CallRequest, kind: str) -> Decision:
    if not isinstance(answer, Mapping) or answer.get("decision") not in EFFECTS:
        raise AnswerMismatch("it is not a decision")
    effect: str = answer["decision"]
    _require_equal(answer, "run", question.run)
    _require_equal(answer, "call_id", question.call_id)
    approval, permit, reason = (_get_object(answer, name) for name in ("approval", "permit", "reason"))
    tool = question.tool
    if effect != "deny":  # a deny counts, whatever the other fields are
        _require_equal(answer, "attempt", question.attempt)
    if effect == "ask" and not _get_text(approval, "id"):
        raise AnswerMismatch("it requires approval, but names no address to poll")
    # Before an allow, polls may show an edit that can still be undone, and every answer may show a repair.
    if effect == "ask" and kind != "poll" and "repair" not in answer:
        _require_equal(answer, "args_sha256", question.args_sha256)
    if effect == "allow":
        tool = _check_allow(answer, question)
    return Decision(
        effect=effect,
        call_id=question.call_id,
        code=_get_text(reason, "code"),
        text=_get_text(reason, "text")[:LONGEST_TEXT],
        by=_get_text(_get_object(answer, "by"), "kind"),
        args_sha256=_get_text(answer, "args_sha256"),
        approval=_get_text(approval, "id"),
        permit=_get_text(permit, "id"),
        args=answer.get("args"),
        edited="args" in answer,
        tool=tool.name if tool.name != question.tool.name else "",
        raw=answer,
        question=question,
    )


def _check_allow(answer: Mapping[str, Any], question: CallRequest) -> Tool:
    """Return the tool that may run; raises AnswerMismatch if a digest does not match."""
    tool = _read_tool(answer, question)
    args = answer.get("args", question.args)
    _require_equal(answer, "args_sha256", _compute_digest(args))
    _require_equal_if_present(answer, "call_sha256", question.digest_of(args, tool))
    return tool


def _check_claim_fields(answer: Any, decision: Decision, question: CallRequest) -> None:
    if not isinstance(answer, Mapping) or answer.get("state") != "claimed":
        raise AnswerMismatch("it does not confirm the claim")
    _require_equal(answer, "permit", decision.permit)
    _require_equal(answer, "call_id", question.call_id)
    _require_equal_if_present(answer, "run", question.run)
    _require_equal_if_present(answer, "attempt", question.attempt)
    _require_equal(answer, "args_sha256", decision.args_sha256)
    if "args" not in answer or _compute_digest(answer["args"]) != decision.args_sha256:
        raise AnswerMismatch("its arguments do not match its digest")
    tool = get_allowed_tool(decision)
    if "tool" in answer and tool != _read_tool(answer, question):
        raise AnswerMismatch("it is for a different tool")
    _require_equal_if_present(answer, "call_sha256", question.digest_of(answer["args"], tool))


def get_allowed_tool(decision: Decision) -> Tool:
    """Return the tool that an allow names."""
    assert decision.question is not None
    return _read_tool(decision.raw, decision.question)


def _read_tool(answer: Mapping[str, Any], question: CallRequest) -> Tool:
    """Return the tool of the answer: the submitted one, or one that was offered instead."""
    tool, submitted_tool = answer.get("tool"), question.tool
    if "tool" not in answer:  # a server may leave it out
        return submitted_tool
    if not isinstance(tool, Mapping) or not _get_text(tool, "name") or not isinstance(tool.get("source"), str):
        raise AnswerMismatch("it names no tool")
    name, source = _get_text(tool, "name"), _get_text(tool, "source")
    is_allowed = name == submitted_tool.name or name in question.offered_names
    if not is_allowed or (submitted_tool.source and source != submitted_tool.source):
        raise AnswerMismatch("it is for a different tool")
    return replace(submitted_tool, name=name, source=source)


def _require_equal(answer: Mapping[str, Any], name: str, expected_value: str | int) -> None:
    """Raise AnswerMismatch unless the field has exactly this value."""
    value = answer.get(name)
    if type(value) is not type(expected_value) or value != expected_value:
        raise AnswerMismatch(f"its {name} does not match this call")


def _require_equal_if_present(answer: Mapping[str, Any], name: str, expected_value: str | int) -> None:
    """Raise AnswerMismatch if the field is present with another value."""
    if name in answer:
        _require_equal(answer, name, expected_value)


def _compute_digest(args: Any) -> str:
    try:
        return digest(args)
    except ValueError as error:
        raise AnswerMismatch(f"its arguments have no canonical form ({error})") from error


def _get_object(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = answer.get(name)
    return part if isinstance(part, Mapping) else {}


def _get_text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""
