"""Finds likely mistakes in a valid policy. Only `grave` findings are refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.beaten_rules import find_winners
from toolcards.core.policy.language.document import PolicyFinding
from toolcards.core.policy.language.document_model import AskDoc, ClauseDoc, PolicyDocument, RuleDoc
from toolcards.core.policy.language.rule_checks import CHECKS, RuleProblem, find_late_escalations, list_arguments
from toolcards.core.policy.matching.operands import compile_glob
from toolcards.core.policy.rule import AskTerms, Rule
from toolcards.core.policy.rule_set import RuleSet

_LABELS = ("tool", "kind", "source", "agent", "user", "env", "run", "project")
_GRAVE_CODES = frozenset({"cmd_operators"})  # such a condition would never match, and its author would not notice
_MAX_EXAMINED_RULES = 100  # of a policy whose rules are tried on examples


def lint(
    policy: RuleSet,
    *,
    known_tools: Collection[str] = (),
    schemas: Mapping[str, Any] | None = None,
    groups: Mapping[str, int] | None = None,
    people: Collection[str] | None = None,
    voters: Collection[tuple[str, ...]] = (),
    owners: Collection[str] = (),
) -> list[PolicyFinding]:
    """Return the likely mistakes.

    `known_tools`: names of used or announced tools; no check if empty. `schemas`: JSON Schema of the input by tool.
    `groups`: the number of people for each approver name (`group:sre`, `ana`); no check if None.
    `people`: the names of all people and groups; no check if None.
    `voters`: everyone who may vote, each with the name first and then the groups.
    `owners`: people that agents work for.
    """
    doc = PolicyDocument.model_validate(policy.document)
    findings: list[PolicyFinding] = []
    for number, (rule, compiled_rule) in enumerate(zip(doc.rules, policy.rules, strict=True)):
        pointer = f"/rules/{number}"
        for check in CHECKS:
            findings += [
                PolicyFinding(pointer + w, c, m, grave=c in _GRAVE_CODES) for w, c, m in check(rule, compiled_rule)
            ]
        findings += [PolicyFinding(pointer + w, c, m) for w, c, m in _find_unknown_tools(rule, known_tools)]
        findings += [PolicyFinding(pointer + w, c, m) for w, c, m in _find_unknown_arguments(rule, schemas or {})]
        if groups is not None and rule.effect == "ask" and rule.enabled and rule.mode != "monitor":
            findings += _check_approvers(rule.ask, compiled_rule.ask, groups, f"{pointer}/ask")
        findings += [PolicyFinding(pointer + w, c, m) for w, c, m in _find_unknown_people(rule, people)]
        for rule_id in _find_stronger_rules(rule, compiled_rule, doc, policy):
            message = f"This rule has no effect: {rule_id} is stricter and also matches."
            findings.append(PolicyFinding(pointer, "shadowed", message))
    if doc.default_ask:
        findings += _check_default_ask(doc.default_ask, policy, groups, people)
    if not any(finding.grave for finding in findings):
        findings += _check_any_approver(doc, groups)
        findings += _find_requester_only_asks(doc, policy, voters, owners)
    return findings + list(_find_duplicates(doc))


# ---------------------------------------------------------------- one rule, known tools and people


def _find_unknown_tools(rule: RuleDoc, known_tools: Collection[str]) -> Iterator[RuleProblem]:
    for number, name in enumerate(rule.match.tool or ()):
        if known_tools and not any(map(compile_glob(name), known_tools)):
            like = next((tool for tool in sorted(known_tools) if tool.casefold() == name.casefold()), "")
            hint = f" Did you mean {like}? Names are case-sensitive." if like else ""
            yield f"/match/tool/{number}", "unknown_tool", f"No tool called {name} has been used or announced.{hint}"


def _find_unknown_arguments(rule: RuleDoc, schemas: Mapping[str, Any]) -> Iterator[RuleProblem]:
    for where, argument in list_arguments(rule):
        first = argument.path.split("/")[1:2]
        for tool in rule.match.tool or ():
            schema = schemas.get(tool)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            if first and isinstance(properties, dict) and first[0] not in {*properties, "*"}:
                yield f"{where}/path", "unknown_argument", f"{tool} has no argument called {first[0]}."


def _check_approvers(
    ask: AskDoc | None, terms: AskTerms, groups: Mapping[str, int], pointer: str
) -> Iterator[PolicyFinding]:
    names = set(ask.approvers) if ask and ask.approvers else groups
    people = sum(groups.get(name, 0) for name in names)
    if people == 0:
        yield PolicyFinding(
            f"{pointer}/approvers", "no_approvers", "No one can approve calls that need this approval.", grave=True
        )
    elif terms.quorum > people:
        message = f"{terms.quorum} approvals are required, but only {people} can be given."
        yield PolicyFinding(f"{pointer}/quorum", "no_approvers", message, grave=True)
    elif terms.quorum == people and ask and ask.allow_requester is False:
        yield PolicyFinding(
            f"{pointer}/quorum", "quorum_tight", "Every approver must answer, but the requester is not allowed to."
        )


def _find_unknown_people(rule: RuleDoc, people: Collection[str] | None) -> Iterator[RuleProblem]:
    if people is None:
        return
    names_with_place = [(f"/match/user/{number}", name) for number, name in enumerate(rule.match.user or ())]
    names_with_place += [(f"/ask{where}", name) for where, name in _list_named_approvers(rule.ask)]
    yield from _report_unknown_people(names_with_place, people)


def _list_named_approvers(ask: AskDoc | None) -> list[tuple[str, str]]:
    """Return every person and group in the terms, with the place."""
    if ask is None:
        return []
    approvers = [(f"/approvers/{number}", name) for number, name in enumerate(ask.approvers or ())]
    return approvers + [(f"/escalate/{number}/to", step.to) for number, step in enumerate(ask.escalate or ())]


def _report_unknown_people(names_with_place: list[tuple[str, str]], people: Collection[str]) -> Iterator[RuleProblem]:
    for where, name in names_with_place:
        if "*" not in name and name not in people:
            yield (
                where,
                "unknown_person",
                f"No person or group is named {name}. Create it, or remove the name.",
            )


def _check_any_approver(doc: PolicyDocument, groups: Mapping[str, int] | None) -> Iterator[PolicyFinding]:
    """Report asks that no one can answer: they are denied."""
    if groups is None or any(groups.values()):
        return
    for name in _BUILT_IN:
        if getattr(doc, name) == "ask":
            yield PolicyFinding(f"/{name}", "no_approvers", "No one can approve this. Use deny.", grave=True)


# ---------------------------------------------------------------- approvals that no rule asks for

_BUILT_IN = ("default", "unknown_tool", "changed_tool")


def _check_default_ask(
    ask: AskDoc, policy: RuleSet, groups: Mapping[str, int] | None, people: Collection[str] | None
) -> Iterator[PolicyFinding]:
    pointer = "/default_ask"
    if groups is not None:
        yield from _check_approvers(ask, policy.ask, groups, pointer)
    warnings = [
        *find_late_escalations(ask, policy.ask),
        *(_report_unknown_people(_list_named_approvers(ask), people) if people is not None else ()),
    ]
    for where, code, message in warnings:
        yield PolicyFinding(pointer + where, code, message)


def _find_requester_only_asks(
    doc: PolicyDocument, policy: RuleSet, voters: Collection[tuple[str, ...]], owners: Collection[str]
) -> Iterator[PolicyFinding]:
    """Report asks that the agent's owner is the only one to answer: their agents are denied."""
    asks = [
        (f"/rules/{number}/ask/allow_requester", compiled_rule.ask)
        for number, (rule, compiled_rule) in enumerate(zip(doc.rules, policy.rules, strict=True))
        if rule.effect == "ask" and rule.enabled and rule.mode != "monitor"
    ]
    if any(getattr(doc, name) == "ask" for name in _BUILT_IN):
        asks.append(("/default_ask/allow_requester", policy.ask))
    for pointer, terms in asks:
        able = [names[0] for names in voters if terms.may_answer(names)]
        if terms.allow_requester or len(able) != terms.quorum:
            continue
        if barred_people := sorted({*able} & {*owners}):
            message = (
                f"Calls of the agents of {', '.join(barred_people)} are denied here at once: "
                "too few other people can approve them."
            )
            yield PolicyFinding(pointer, "requester_only", message)


# ---------------------------------------------------------------- several rules


def _find_stronger_rules(rule: RuleDoc, compiled_rule: Rule, doc: PolicyDocument, policy: RuleSet) -> Iterator[str]:
    """Yield the stricter rules because of which this one has no effect: one that covers it, or several together."""
    shadowing_ids = list(_find_shadowing_rule(rule, doc.rules, policy.rules))
    yield from shadowing_ids
    if not shadowing_ids and len(doc.rules) <= _MAX_EXAMINED_RULES:
        beaten = find_winners(policy, compiled_rule.id)
        yield from (winner.id for winner in beaten.winners) if beaten else ()


def _find_shadowing_rule(rule: RuleDoc, rules: list[RuleDoc], compiled_rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield the first stricter rule that matches everything that this one matches.

    It compares only labels, so it may miss some.
    """
    if rule.effect == "deny":
        return
    for candidate, compiled_rule in zip(rules, compiled_rules, strict=True):
        stricter = candidate.effect == "deny" or (candidate.effect == "ask" and rule.effect == "allow")
        counts = (
            candidate.enabled and candidate.mode == "enforce" and candidate.expires_at is None and not candidate.unless
        )
        if stricter and counts and _clause_covers(candidate.match, rule.match):
            yield compiled_rule.id
            return


def _clause_covers(wide: ClauseDoc, narrow: ClauseDoc) -> bool:
    if wide.args or wide.when or wide.rate:
        return False
    for name in _LABELS:
        ours, theirs = getattr(wide, name), getattr(narrow, name)
        if ours is None:
            continue
        if theirs is None or not all(any(_glob_covers(pattern, name) for pattern in ours) for name in theirs):
            return False
    return True


def _glob_covers(wide: str, narrow: str) -> bool:
    return wide == narrow or ("*" not in narrow and compile_glob(wide)(narrow)) or wide == "*"


def _find_duplicates(doc: PolicyDocument) -> Iterator[PolicyFinding]:
    names: dict[str, str] = {}
    for number, rule in enumerate(doc.rules):
        content = digest(rule.model_dump(mode="json", exclude={"id", "public_reason", "suggest"}))
        if content in names:
            yield PolicyFinding(f"/rules/{number}", "twin", f"This is a duplicate of {names[content]}.")
        names.setdefault(content, rule.id or f"rule number {number + 1}")
