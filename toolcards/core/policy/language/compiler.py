"""Compiles a checked document to rules: patterns are compiled, defaults filled in, conditions sorted by cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from toolcards.core.policy import tool_names as names
from toolcards.core.policy.changes.changed_commands import InsideCondition
from toolcards.core.policy.changes.harms import HarmCondition
from toolcards.core.policy.changes.limited_tools import LimitedToolCondition
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
from toolcards.core.policy.matching.touch_condition import TouchCondition
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.reviewer import Reviewer
from toolcards.core.policy.rule import AskTerms, Clause, Effect, Rule, list_command_conditions

if TYPE_CHECKING:
    from toolcards.core.policy.language.document_model import ArgumentDoc, AskDoc, ClauseDoc, RuleDoc, WhenDoc

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OF_CALL: dict[str, Callable[[Any], Condition]] = {
    "harms": HarmCondition,
    "reads_by_name": lambda _: LimitedToolCondition(frozenset({"reads"})),
    "tool_only": LimitedToolCondition,
}
_OF_SEGMENT = frozenset({"eq", "in", "prefix", "glob", "re2"})


class InvalidOperand(ValueError):
    """A value in the document is not valid for its operator; `pointer` is relative to the rule."""

    def __init__(self, pointer: str, code: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer
        self.code = code
        self.message = message


def compile_rule(doc: RuleDoc, name: str, sha256: str, ask: AskTerms, reviewer: Reviewer | None = None) -> Rule:
    """Return the compiled rule; raise InvalidOperand for an invalid value.

    `reviewer`: the one that answers its questions before people.
    """
    effect = Effect(doc.effect)
    wide = effect is not Effect.ALLOW
    match = compile_clause(doc.match, wide=wide, pointer="/match")
    unless = tuple(
        compile_clause(exception, wide=not wide, pointer=f"/unless/{number}", tools=doc.match.tool)
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
        ask=add_review(compile_terms(doc.ask, doc.severity, ask), reviewer),
        public_reason=doc.public_reason or "",
        suggest=doc.suggest or "",
        sentence=describe_rule(doc),
        sha256=sha256,
        tools=tuple(doc.match.tool or ()),
        kinds=tuple(doc.match.kind or ()),
        heads=_find_heads(match, focus),
    )


def compile_clause(doc: ClauseDoc, *, wide: bool, pointer: str = "", tools: list[str] | None = None) -> Clause:
    """Return the compiled conditions, cheap ones first.

    `wide`: doubt counts as a match. `tools`: tools that the rule names outside this clause.
    """
    names_tool = any(name.strip("*") for name in [*(doc.tool or ()), *(tools or ())])
    conditions = [
        _add_clause_context(condition, doc, names_tool) for condition in _compile_conditions(doc, wide, pointer)
    ]
    return Clause(tuple(sorted(conditions, key=lambda condition: (condition.cost, condition.name))))


def _add_clause_context(condition: Condition, doc: ClauseDoc, names_tool: bool) -> Condition:
    """Return the condition; one on a command or tool gets what its clause names."""
    arguments = doc.args or []
    if isinstance(condition, LimitedToolCondition):
        return replace(condition, names_server=names_tool or any(name.strip("*") for name in doc.source or ()))
    if isinstance(condition, InsideCondition):
        return replace(condition, names_command=any(MATCHERS[argument.op].command for argument in arguments))
    if not isinstance(condition, CommandCondition):
        return condition
    covered_keys = {parse_pointer(argument.path)[0] for argument in arguments if len(parse_pointer(argument.path)) == 1}
    return replace(condition, covered_keys=frozenset(covered_keys - {*condition.path[:1]}), names_tool=names_tool)


_LABELS: tuple[tuple[str, Texts], ...] = (
    ("run", lambda request: (request.run,) if request.run else ()),
    ("project", lambda request: (request.project.name,) if request.project else ()),
    ("env", lambda request: (request.env,) if request.env else ()),
    ("user", lambda request: request.user),
)

_AgentTexts = tuple[Texts, Texts]  # the names, and their skeletons
_ANYWHERE: _AgentTexts = (lambda q: q.agent_path, lambda q: names.list_agent_skeletons(q.agent_path))
_LEAF: _AgentTexts = (lambda q: q.agent_path[-1:], lambda q: names.list_agent_skeletons(q.agent_path[-1:]))


def _compile_conditions(doc: ClauseDoc, wide: bool, pointer: str) -> Iterator[Condition]:
    yield from _compile_identity_conditions(doc, wide, pointer)
    for name, get in _LABELS:
        patterns = getattr(doc, name)
        if patterns is not None:
            yield build_label_condition(name, patterns, get)
    if doc.when is not None:
        yield _compile_time_window(doc.when)
    if doc.rate is not None:
        yield RateCondition(doc.rate.over, doc.rate.per, doc.rate.scope)
    for number, argument in enumerate(doc.args or ()):
        yield _compile_argument(argument, wide, f"{pointer}/args/{number}")


def _compile_identity_conditions(doc: ClauseDoc, wide: bool, pointer: str) -> Iterator[Condition]:
    """Yield the conditions on names that agents choose."""
    if doc.tool is not None:
        yield _compile_tool(doc.tool, wide, with_source=doc.source is not None)
    if doc.kind is not None:
        yield build_label_condition("kind", list(doc.kind), attrgetter("kinds"), every=not wide)
    if doc.source is not None:
        yield _compile_source(doc.source, wide)
    if doc.agent is not None:
        anywhere = wide if doc.agent_scope is None else doc.agent_scope == "any_in_path"
        yield _compile_name("agent", doc.agent, *(_ANYWHERE if anywhere else _LEAF), wide)
    elif doc.agent_scope is not None:
        raise InvalidOperand(f"{pointer}/agent_scope", "value", "has no effect without agent")


def _compile_source(patterns: list[str], wide: bool) -> LabelCondition:
    """Return the condition on the server: to allow, it is certain; to ask or deny, a possible one is enough."""

    def list_source(request: PolicyRequest) -> tuple[str, ...]:
        return (request.source,) if request.source else ()

    if not wide:
        return build_label_condition("source", patterns, list_source)
    return build_label_condition(
        "source",
        list(map(names.make_skeleton_pattern, patterns)),
        attrgetter("names.source_skeletons"),
        show=list_source,
        get_possible=attrgetter("names.possible_source_skeletons"),
    )


def _compile_tool(patterns: list[str], wide: bool, *, with_source: bool) -> LabelCondition:
    def list_tool(request: PolicyRequest) -> tuple[str, ...]:
        return (request.tool,)

    if wide:
        return build_label_condition(
            "tool", list(map(names.make_skeleton_pattern, patterns)), attrgetter("names.skeletons"), show=list_tool
        )
    return build_label_condition(
        "tool",
        patterns,
        attrgetter("names.exact_with_source" if with_source else "names.exact"),
        show=list_tool,
        get_start=attrgetter("names.qualifier"),
    )


def _compile_name(name: str, patterns: list[str], get_names: Texts, get_skeletons: Texts, wide: bool) -> LabelCondition:
    if not wide:
        return build_label_condition(name, patterns, get_names)
    return build_label_condition(name, list(map(names.make_skeleton_pattern, patterns)), get_skeletons, show=get_names)


def _compile_time_window(doc: WhenDoc) -> TimeWindowCondition:
    start, end = (int(text[:2]) * 60 + int(text[3:]) for text in (doc.start, doc.end))
    return TimeWindowCondition(ZoneInfo(doc.tz), frozenset(DAYS.index(day) for day in doc.days or DAYS), start, end)


def _compile_argument(doc: ArgumentDoc, wide: bool, pointer: str) -> Condition:
    operator = MATCHERS[doc.op]
    try:
        operand = operator.shape.prepare(doc.value)
    except ValueError as wrong:
        raise InvalidOperand(f"{pointer}/value", "pattern" if doc.op == "re2" else "value", str(wrong)) from None
    path = parse_pointer(doc.path)
    every = not wide if doc.quant is None else doc.quant == "all"
    if operator.name == "reads_sql" and "*" in path:  # a query takes long to parse
        raise InvalidOperand(f"{pointer}/path", "value", "reads one argument: name it without *")
    if operator.name == "inside_project":
        return InsideCondition(path, every, manifests=operand)
    if operator.name in _OF_CALL:
        if path:
            raise InvalidOperand(f"{pointer}/path", "value", "is about the whole call: leave it empty")
        return _OF_CALL[operator.name](operand)
    if operator.name in {"touches", "avoids"}:
        return TouchCondition(path, operand, every, avoids=operator.name == "avoids")
    if operator.command:
        return CommandCondition(path, operator, operand, every, wide)
    return ArgumentCondition(path, operator, operand, every, wide)


def _find_focus(clauses: tuple[Clause, ...]) -> tuple[str, ...] | None:
    """Return the path of the only shell command in these clauses, or None."""
    paths = {command.path for clause in clauses for command in list_command_conditions(clause)}
    if len(paths) != 1:
        return None
    path = paths.pop()
    return None if "*" in path else path


def _find_heads(match: Clause, focus: tuple[str, ...] | None) -> tuple[tuple[str, ...], ...] | None:
    """Return the programs with their first words, of which one must run for a match."""
    for command in list_command_conditions(match) if focus is not None else ():
        if command.operand.heads is not None:
            return command.operand.heads
    return None


def _check_by_segment(exception: Clause, focus: tuple[str, ...] | None) -> Clause:
    """Return the exception with its conditions on the command checked for each segment."""
    return Clause(
        tuple(
            replace(condition, by_segment=True)
            if isinstance(condition, ArgumentCondition)
            and condition.path == focus != ()
            and condition.matcher.name in _OF_SEGMENT
            else condition
            for condition in exception.conditions
        )
    )


def compile_terms(doc: AskDoc | None, severity: str, default: AskTerms) -> AskTerms:
    """Return the terms of an approval; `default` has unset ones."""
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


def add_review(terms: AskTerms, reviewer: Reviewer | None) -> AskTerms:
    """Return the terms with the reviewer that is asked before people."""
    if reviewer is None:
        return terms
    return replace(terms, review=reviewer.name) if reviewer.enforces else replace(terms, shadow_review=reviewer.name)
