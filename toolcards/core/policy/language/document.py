"""The policy document, checked strictly and compiled: `parse` is the only entry.

Unknown fields, types, operators and effects are errors, each with a JSON Pointer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolcards.client.common.canonical_json import NotCanonical, digest, escape
from toolcards.core.policy.language import compiler
from toolcards.core.policy.language.description import describe_rule
from toolcards.core.policy.language.document_model import ClauseDoc, PolicyDocument
from toolcards.core.policy.reviewer import DEFAULT_PROMPT, Reviewer
from toolcards.core.policy.rule import TERMS, AskTerms, Clause, Effect, Rule
from toolcards.core.policy.rule_set import BUILT_IN, RuleSet

if TYPE_CHECKING:
    from toolcards.core.policy.language.document_model import PolicyDocument, ReviewerDoc


# Compiles the reviewers of a document, and finds names and fields that cannot be meant.
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


__all__ = ["PolicyError", "PolicyFinding", "build_schema", "compile_pattern", "describe_rule", "parse", "parse_rule"]

MAX_NODES = 500_000


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """An error or warning about a document: its place (a JSON Pointer), its code and its message.

    A policy with `grave` findings cannot become active.
    """

    pointer: str
    code: str
    message: str
    grave: bool = False


class PolicyError(ValueError):
    """The document is invalid; `findings` has at least one error."""

    def __init__(self, findings: list[PolicyFinding]) -> None:
        super().__init__("; ".join(f"{finding.pointer or '/'}: {finding.message}" for finding in findings[:5]))
        self.findings = findings


# ---------------------------------------------------------------- parsing


def parse(document: object, *, version: int = 0, ask: AskTerms = TERMS) -> RuleSet:
    """Return the compiled policy, or raise PolicyError with every finding.

    `ask` has the terms that rules do not set.
    """
    try:
        sha256 = digest(document, max_nodes=MAX_NODES)
        doc = PolicyDocument.model_validate(document)
    except NotCanonical as wrong:
        raise PolicyError([PolicyFinding(wrong.pointer, "not_json", wrong.why)]) from None
    except ValidationError as wrong:
        raise PolicyError([_translate_error(error) for error in wrong.errors(include_url=False)]) from None
    findings = [PolicyFinding(*problem) for problem in find_reviewer_problems(doc)]
    reviewers = compile_reviewers(doc)
    rules = tuple(_compile_rules(doc, ask, reviewers, findings))
    if findings:
        raise PolicyError(findings)
    return RuleSet(
        version=version,
        sha256=sha256,
        default=Effect(doc.default),
        unknown_tool=Effect(doc.unknown_tool) if doc.unknown_tool else None,
        changed_tool=Effect(doc.changed_tool) if doc.changed_tool else None,
        rules=rules,
        ask=compiler.add_review(
            compiler.compile_terms(doc.default_ask, ask.severity, ask), reviewers.get(doc.default_review or "")
        ),
        reviewers=reviewers,
        leaves_questions=doc.agent_questions == "agent",
        document=document if isinstance(document, dict) else {},
    )


def parse_rule(rule: dict[str, Any]) -> Rule:
    """Return one rule alone; raises PolicyError.

    Its reviewer is left out, because it is elsewhere in the document.
    """
    return parse({"v": 1, "rules": [{name: value for name, value in rule.items() if name != "review"}]}).rules[0]


def compile_pattern(args: object) -> Clause:
    """Return a grant's pattern, compiled from the `args` of a rule.

    Raises PolicyError if they are invalid.
    """
    try:
        doc = ClauseDoc.model_validate({"args": args})
        if not doc.args:
            raise PolicyError([PolicyFinding("/args", "value", "At least one condition is required.")])
        return compiler.compile_clause(doc, wide=False)
    except ValidationError as wrong:
        raise PolicyError([_translate_error(error) for error in wrong.errors(include_url=False)]) from None
    except compiler.InvalidOperand as wrong:
        raise PolicyError([PolicyFinding(wrong.pointer, wrong.code, wrong.message)]) from None


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document, for editors."""
    return PolicyDocument.model_json_schema(by_alias=True)


def _compile_rules(
    doc: PolicyDocument, ask: AskTerms, reviewers: Mapping[str, Reviewer], findings: list[PolicyFinding]
) -> Iterator[Rule]:
    ids: set[str] = set()
    for number, rule in enumerate(doc.rules):
        plain = rule.model_dump(mode="json", by_alias=True, exclude_unset=True)
        name = rule.id or _generate_id(plain, ids)
        if name in ids:
            findings.append(
                PolicyFinding(f"/rules/{number}/id", "duplicate_id", f"Another rule also has the id {name}.")
            )
        if name in BUILT_IN:
            findings.append(PolicyFinding(f"/rules/{number}/id", "reserved_id", f"{name} is a reserved id."))
        ids.add(name)
        try:
            yield compiler.compile_rule(rule, name, digest(plain), ask, reviewers.get(rule.review or ""))
        except compiler.InvalidOperand as wrong:
            findings.append(PolicyFinding(f"/rules/{number}{wrong.pointer}", wrong.code, wrong.message))


def _generate_id(plain: dict[str, Any], ids: set[str]) -> str:
    """Return an id for a rule without one; the same content gets the same id."""
    name = "rul_" + digest(plain)[:10]
    copies = sum(1 for rule_id in ids if rule_id == name or rule_id.startswith(name + "_"))
    return f"{name}_{copies + 1}" if copies else name


_CODES = {
    "extra_forbidden": ("unknown_field", "Unknown field."),
    "missing": ("missing", "This field is required."),
}


def _translate_error(error: ErrorDetails) -> PolicyFinding:
    where = "".join(f"/{escape(str(step))}" for step in error["loc"])
    code, message = _CODES.get(error["type"], ("", ""))
    if not code:
        code = "unknown_operator" if where.endswith("/op") else "value" if error["type"] == "value_error" else "type"
        message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "literal_error":
        code = "unknown_value"
    return PolicyFinding(where, code, message)
