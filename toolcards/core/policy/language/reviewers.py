"""Compiles the reviewers of a document, and finds names and fields that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from toolcards.client.common.canonical_json import escape
from toolcards.core.policy.reviewer import DEFAULT_PROMPT, Reviewer

if TYPE_CHECKING:
    from toolcards.core.policy.language.document_model import PolicyDocument, ReviewerDoc

ReviewerProblem: TypeAlias = tuple[str, str, str]  # pointer, code and message
_REQUIRED_FIELDS = {"command": ("command",), "webhook": ("url",), "model": ("api", "url", "model")}
_FIELDS = ("command", "url", "api", "model", "prompt")


def compile_reviewers(doc: PolicyDocument) -> dict[str, Reviewer]:
    """Return the reviewers by name."""
    return {name: _compile_reviewer(name, reviewer) for name, reviewer in doc.reviewers.items()}


def _compile_reviewer(name: str, doc: ReviewerDoc) -> Reviewer:
    return Reviewer(
        name=name,
        kind=doc.kind,
        enforces=doc.mode == "enforce",
        seconds=float(doc.timeout),
        command=doc.command or "",
        url=doc.url or "",
        api=doc.api or "",
        model=doc.model or "",
        prompt=(doc.prompt or DEFAULT_PROMPT) if doc.kind == "model" else "",
    )


def find_reviewer_problems(doc: PolicyDocument) -> Iterator[ReviewerProblem]:
    """Yield the faults of reviewers and of their names in rules."""
    for name, reviewer in doc.reviewers.items():
        required_fields = _REQUIRED_FIELDS[reviewer.kind]
        optional_fields = ("prompt",) if reviewer.kind == "model" else ()
        for field in _FIELDS:
            pointer, is_set = f"/reviewers/{escape(name)}/{field}", getattr(reviewer, field) is not None
            if field in required_fields and not is_set:
                yield pointer, "missing", f"A reviewer of the kind {reviewer.kind} requires this field."
            elif is_set and field not in (*required_fields, *optional_fields):
                yield pointer, "unknown_field", f"A reviewer of the kind {reviewer.kind} does not have this field."
    for pointer, name in _list_named_reviewers(doc):
        if name not in doc.reviewers:
            yield pointer, "unknown_reviewer", f"No reviewer is named {name}. Add it to `reviewers`."


def _list_named_reviewers(doc: PolicyDocument) -> Iterator[tuple[str, str]]:
    for number, rule in enumerate(doc.rules):
        if rule.review is not None:
            yield f"/rules/{number}/review", rule.review
    if doc.default_review is not None:
        yield "/default_review", doc.default_review
