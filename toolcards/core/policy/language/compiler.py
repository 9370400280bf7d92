"""From a checked document to rules that judge: patterns are compiled, defaults filled in, conditions put in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from toolcards.core.policy import tool_names as names
from toolcards.core.policy.language.description import describe_rule
from toolcards.core.policy.matching.conditions import (
    ArgumentCondition,
    CommandCondition,
    Condition,
    LabelCondition,
    RateCondition,
    Texts,
    TimeWindowCondition,
    build_label_condition,
    parse_pointer,
)
from toolcards.core.policy.matching.matchers import MATCHERS
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import AskTerms, Clause, Effect, Rule, list_command_conditions

if TYPE_CHECKING:
    from toolcards.core.policy.language.document_model import ArgumentDoc, AskDoc, ClauseDoc, RuleDoc, WhenDoc

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OF_SEGMENT = frozenset({"eq", "in", "prefix", "glob", "re2"})


class InvalidOperand(ValueError):
    """A value in the document is not what its operator wants; `pointer` is relative to the rule."""

    def __init__(self, pointer: str, code: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer
        self.code = code
        self.message = message


def compile_rule(doc: RuleDoc, name: str, sha256: str, ask: AskTerms) -> Rule:
    """Return the compiled rule; raise BadValue for a value that its operator refuses."""
    effect = Effect(doc.effect)
    wide = effect is not Effect.ALLOW
    match = compile_clause(doc.match, wide=wide, at="/match")
    unless = tuple(
        compile_clause(exception, wide=not wide, at=f"/unless/{number}", tools=doc.match.tool)
        for number, exception in enumerate(doc.unless or ())
    )
    focus = _find_focus((match, *unless))
    return Rule(
        id=name,
        effect=effect,
        match=match,
        unless=tuple(_check_by_segment(exception, focus) for exception in unless),
        focus=focus,
        monitor=doc.mode == "monitor",
        enabled=doc.enabled,
        expires_at=doc.expires_at or 0.0,
        severity=doc.severity,
        ask=compile_terms(doc.ask, doc.severity, ask),
        public_reason=doc.public_reason or "",
        suggest=doc.suggest or "",
        sentence=describe_rule(doc),
        sha256=sha256,
        tools=tuple(doc.match.tool or ()),
        kinds=tuple(doc.match.kind or ()),
        heads=_find_heads(match, focus),
    )


def compile_clause(doc: ClauseDoc, *, wide: bool, at: str = "", tools: list[str] | None = None) -> Clause:
    """Return the compiled conditions, cheap ones first. `wide`: doubt is meant to count as a match.

    `tools`: those that the rule names outside this clause.
    """
    names_tool = any(name.strip("*") for name in [*(doc.tool or ()), *(tools or ())])
    found = [
        _add_clause_context(condition, doc.args or [], names_tool) for condition in _compile_conditions(doc, wide, at)
    ]
    return Clause(tuple(sorted(found, key=lambda condition: (condition.cost, condition.name))))


def _add_clause_context(condition: Condition, arguments: list[ArgumentDoc], names_tool: bool) -> Condition:
    """Return the condition; one on a command knows of which tools and other arguments its clause speaks."""
    if not isinstance(condition, CommandCondition):
        return condition
    named = {parse_pointer(one.path)[0] for one in arguments if len(parse_pointer(one.path)) == 1}
    return replace(condition, named=frozenset(named - {*condition.path[:1]}), names_tool=names_tool)


_LABELS: tuple[tuple[str, Texts], ...] = (
    ("run", lambda request: (request.run,) if request.run else ()),
    ("env", lambda request: (request.env,) if request.env else ()),
    ("user", lambda request: request.user),
)

_AgentTexts = tuple[Texts, Texts]  # as spelled, and what that looks like
_ANYWHERE: _AgentTexts = (lambda q: q.agent_path, lambda q: names.list_agent_skeletons(q.agent_path))
_LEAF: _AgentTexts = (lambda q: q.agent_path[-1:], lambda q: names.list_agent_skeletons(q.agent_path[-1:]))
_source_skeletons: Texts = attrgetter("names.source_skeletons")


def _compile_conditions(doc: ClauseDoc, wide: bool, at: str) -> Iterator[Condition]:
    yield from _compile_identity_conditions(doc, wide, at)
    for name, get in _LABELS:
        wanted = getattr(doc, name)
        if wanted is not None:
            yield build_label_condition(name, wanted, get)
    if doc.when is not None:
        yield _compile_time_window(doc.when)
    if doc.rate is not None:
        yield RateCondition(doc.rate.over, doc.rate.per, doc.rate.scope)
    for number, argument in enumerate(doc.args or ()):
        yield _compile_argument(argument, wide, f"{at}/args/{number}")


def _compile_identity_conditions(doc: ClauseDoc, wide: bool, at: str) -> Iterator[Condition]:
    """Give the conditions on names that agents choose."""
    if doc.tool is not None:
        yield _compile_tool(doc.tool, wide, with_source=doc.source is not None)
    if doc.kind is not None:
        yield build_label_condition("kind", list(doc.kind), attrgetter("kinds"), every=not wide)
    if doc.source is not None:
        yield _compile_name("source", doc.source, lambda q: (q.source,) if q.source else (), _source_skeletons, wide)
    if doc.agent is not None:
        anywhere = wide if doc.agent_scope is None else doc.agent_scope == "any_in_path"
        yield _compile_name("agent", doc.agent, *(_ANYWHERE if anywhere else _LEAF), wide)
    elif doc.agent_scope is not None:
        raise InvalidOperand(f"{at}/agent_scope", "value", "says nothing without agent")


def _compile_tool(wanted: list[str], wide: bool, *, with_source: bool) -> LabelCondition:
    def shown(request: PolicyRequest) -> tuple[str, ...]:
        return (request.tool,)

    if wide:
        return build_label_condition(
            "tool", list(map(names.make_skeleton_pattern, wanted)), attrgetter("names.skeletons"), show=shown
        )
    return build_label_condition(
        "tool", wanted, attrgetter("names.exact_with_source" if with_source else "names.exact"), show=shown
    )


def _compile_name(name: str, wanted: list[str], spelled: Texts, alike: Texts, wide: bool) -> LabelCondition:
    if not wide:
        return build_label_condition(name, wanted, spelled)
    return build_label_condition(name, list(map(names.make_skeleton_pattern, wanted)), alike, show=spelled)


def _compile_time_window(doc: WhenDoc) -> TimeWindowCondition:
    start, end = (int(text[:2]) * 60 + int(text[3:]) for text in (doc.start, doc.end))
    return TimeWindowCondition(ZoneInfo(doc.tz), frozenset(DAYS.index(day) for day in doc.days or DAYS), start, end)


def _compile_argument(doc: ArgumentDoc, wide: bool, at: str) -> Condition:
    request = MATCHERS[doc.op]
    try:
        wanted = request.shape.prepare(doc.value)
    except ValueError as wrong:
        raise InvalidOperand(f"{at}/value", "pattern" if doc.op == "re2" else "value", str(wrong)) from None
    path = parse_pointer(doc.path)
    every = not wide if doc.quant is None else doc.quant == "all"
    if request.command:
        return CommandCondition(path, request, wanted, every, wide)
    return ArgumentCondition(path, request, wanted, every, wide)


def _find_focus(clauses: tuple[Clause, ...]) -> tuple[str, ...] | None:
    """Return the one path whose shell command the rule is judged on, segment by segment."""
    paths = {command.path for one in clauses for command in list_command_conditions(one)}
    if len(paths) != 1:
        return None
    path = paths.pop()
    return None if "*" in path else path


def _find_heads(match: Clause, focus: tuple[str, ...] | None) -> tuple[tuple[str, ...], ...] | None:
    """Return the programs, each with its first words, of which one must run at the focus for the clause to hold."""
    for command in list_command_conditions(match) if focus is not None else ():
        if command.operand.heads is not None:
            return command.operand.heads
    return None


def _check_by_segment(exception: Clause, focus: tuple[str, ...] | None) -> Clause:
    """Return the exception with its questions about the command's text asked of each segment's text."""
    return Clause(
        tuple(
            replace(condition, by_segment=True)
            if isinstance(condition, ArgumentCondition)
            and condition.path == focus
            and condition.matcher.name in _OF_SEGMENT
            else condition
            for condition in exception.conditions
        )
    )


def compile_terms(doc: AskDoc | None, severity: str, default: AskTerms) -> AskTerms:
    """Return how an answer must come about; `default` holds what the document leaves open."""
    terms = replace(default, severity=severity)
    if doc is not None:
        terms = replace(
            terms,
            decide_ttl=float(doc.decide_ttl or default.decide_ttl),
            use_ttl=float(doc.use_ttl or default.use_ttl),
            approvers=(tuple(sorted(set(doc.approvers))),) if doc.approvers else default.approvers,
            quorum=doc.quorum,
            deny_quorum=doc.deny_quorum,
            allow_requester=default.allow_requester if doc.allow_requester is None else doc.allow_requester,
            reason=doc.reason or default.reason,
            reauth=doc.reauth or default.reauth,
            editable=default.editable if doc.editable is None else tuple(sorted(set(doc.editable))),
            grants=default.grants if doc.grants is None else tuple(g for g in default.grants if g in doc.grants),
            escalate=tuple(sorted({(float(step.after), step.to) for step in doc.escalate or ()})),
        )
        terms = replace(
            terms,
            stands_in=tuple((after, to, names) for names in terms.approvers for after, to in terms.escalate),
        )
    return replace(terms, grants=("once",)) if severity == "critical" else terms
