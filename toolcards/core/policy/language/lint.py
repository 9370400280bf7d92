"""What the author of a checked policy may have overlooked. Only `grave` findings are refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.document import PolicyFinding
from toolcards.core.policy.language.document_model import ArgumentDoc, AskDoc, ClauseDoc, PolicyDocument, RuleDoc
from toolcards.core.policy.matching.operands import compile_glob
from toolcards.core.policy.rule import AskTerms, Rule
from toolcards.core.policy.rule_set import RuleSet
from toolcards.core.policy.shell.command_prefix import explain_partial_allow, parse_prefix

_LOOSE_OPERATORS = frozenset({"prefix", "glob", "re2"})
_LABELS = ("tool", "kind", "source", "agent", "user", "env", "run")
_Check = Callable[[RuleDoc, Rule], Iterable[tuple[str, str, str]]]
_CHECKS: list[_Check] = []
_GRAVE_CODES = frozenset({"cmd_operators"})  # such a condition would never match, and its author would not know


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
    """Return what deserves a second look.

    `known_tools`: names seen or announced; empty is not checked. `schemas`: JSON Schema of the input by tool.
    `groups`: for each approver name (`group:sre`, `ana`) how many people that is; None is not checked.
    `people`: all names of people and groups there are; None is not checked.
    `voters`: who may answer at all, each with the name first and then the groups; `owners`: whom agents work for.
    """
    if "layers" in policy.document:
        return []
    doc = PolicyDocument.model_validate(policy.document)
    findings: list[PolicyFinding] = []
    for number, (rule, compiled) in enumerate(zip(doc.rules, policy.rules, strict=True)):
        at = f"/rules/{number}"
        for check in _CHECKS:
            findings += [PolicyFinding(at + w, c, m, grave=c in _GRAVE_CODES) for w, c, m in check(rule, compiled)]
        findings += [PolicyFinding(at + w, c, m) for w, c, m in _find_unknown_tools(rule, known_tools)]
        findings += [PolicyFinding(at + w, c, m) for w, c, m in _find_unknown_arguments(rule, schemas or {})]
        if groups is not None and rule.effect == "ask" and rule.enabled and rule.mode != "monitor":
            findings += _check_approvers(rule.ask, compiled.ask, groups, f"{at}/ask")
        findings += [PolicyFinding(at + w, c, m) for w, c, m in _find_unknown_people(rule, people)]
        findings += [PolicyFinding(at, "shadowed", f"This rule has no effect: {other} is stricter and also matches.")
                     for other in _find_shadowing_rule(rule, doc.rules, policy.rules)]  # fmt: skip
    if doc.default_ask:
        findings += _check_default_ask(doc.default_ask, policy, groups, people)
    if not any(found.grave for found in findings):
        findings += _check_any_approver(doc, groups)
        findings += _find_requester_only_asks(doc, policy, voters, owners)
    return findings + list(_find_duplicates(doc))


def _register_check(check: _Check) -> _Check:
    _CHECKS.append(check)
    return check


# ---------------------------------------------------------------- one rule by itself


@_register_check
def _check_allows_everything(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    bare = rule.match.model_dump(exclude_none=True, exclude={"tool"})
    if rule.effect == "allow" and not bare and (rule.match.tool is None or "*" in rule.match.tool):
        yield "/match", "allows_everything", "It allows every call; `default` says the same more plainly."


@_register_check
def _check_unused_terms(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    if rule.ask is not None and rule.effect != "ask":
        yield "/ask", "unused", f"No one is asked by a rule with the effect {rule.effect}."


@_register_check
def _check_escalation(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    for where, code, message in _find_late_escalations(rule.ask, compiled.ask):
        yield f"/ask{where}", code, message


def _find_late_escalations(ask: AskDoc | None, terms: AskTerms) -> Iterator[tuple[str, str, str]]:
    for number, step in enumerate((ask.escalate if ask else None) or ()):
        if terms.decide_ttl and float(step.after) >= terms.decide_ttl:
            yield f"/escalate/{number}/after", "too_late", "The approval has expired by then, so no one is notified."


@_register_check
def _check_home_paths(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    if rule.effect != "allow":
        return
    for where, argument in _list_arguments(rule):
        values = argument.value if isinstance(argument.value, list) else [argument.value]
        if argument.op == "path_under" and where.startswith("/match") and any(str(v).startswith("~") for v in values):
            yield where, "never_matches", "Where ~ leads is not certain, so this allows nothing; name the whole path."


@_register_check
def _check_commands(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    for where, argument in _list_arguments(rule):
        if argument.op != "cmd":
            continue
        for text in argument.value if isinstance(argument.value, list) else [argument.value]:
            words = parse_prefix(text).words
            if not words:
                yield (
                    where,
                    "cmd_operators",
                    f"“{text}” is not one plain command, so no command begins with it; name one program.",
                )
            elif words[-1].endswith("*"):
                yield where, "cmd_star", f"“{text}”: more words may always follow; leave the * out."
            elif rule.effect == "allow" and not where.startswith("/unless") and (why := explain_partial_allow(words)):
                yield where, "cmd_forms", f"“{text}”: {why}."
            elif rule.effect == "deny" and any(word.startswith("-") for word in words[1:]):
                yield where, "cmd_flags", f"“{text}”: the same flags can be spelled in other ways (-r -f, --force)."


@_register_check
def _check_loose_exceptions(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    for where, argument in _list_arguments(rule):
        if argument.op not in _LOOSE_OPERATORS:
            continue
        if where.startswith("/unless") and rule.effect != "allow":
            yield where, "loose_exception", "Later flags can undo what the beginning says; use eq, or cmd for commands."
        elif rule.effect == "allow" and argument.op != "re2" and argument.path in {"/command", "/cmd"}:
            yield where, "prefix_of_command", "The beginning of a command says nothing about what follows; use cmd."


@_register_check
def _check_rate_of_allow(rule: RuleDoc, compiled: Rule) -> Iterator[tuple[str, str, str]]:
    if rule.effect == "allow" and rule.match.rate is not None:
        yield "/match/rate", "rate_of_allow", "It allows only after many calls; you may mean an ask with this rate."


def _list_arguments(rule: RuleDoc) -> Iterator[tuple[str, ArgumentDoc]]:
    clauses = [("/match", rule.match), *((f"/unless/{number}", one) for number, one in enumerate(rule.unless or ()))]
    for where, clause in clauses:
        for number, argument in enumerate(clause.args or ()):
            yield f"{where}/args/{number}", argument


# ---------------------------------------------------------------- one rule and the world


def _find_unknown_tools(rule: RuleDoc, known: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for number, name in enumerate(rule.match.tool or ()):
        if known and not any(map(compile_glob(name), known)):
            like = next((tool for tool in sorted(known) if tool.casefold() == name.casefold()), "")
            hint = f" Did you mean {like}? Names are case-sensitive." if like else ""
            yield f"/match/tool/{number}", "unknown_tool", f"No tool called {name} has been seen.{hint}"


def _find_unknown_arguments(rule: RuleDoc, schemas: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for where, argument in _list_arguments(rule):
        first = argument.path.split("/")[1:2]
        for tool in rule.match.tool or ():
            schema = schemas.get(tool)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            if first and isinstance(properties, dict) and first[0] not in {*properties, "*"}:
                yield f"{where}/path", "unknown_argument", f"{tool} has no argument called {first[0]}."


def _check_approvers(
    ask: AskDoc | None, terms: AskTerms, groups: Mapping[str, int], at: str
) -> Iterator[PolicyFinding]:
    named = set(ask.approvers) if ask and ask.approvers else groups
    people = sum(groups.get(name, 0) for name in named)
    if people == 0:
        yield PolicyFinding(f"{at}/approvers", "no_approvers", "No one may approve what this asks.", grave=True)
    elif terms.quorum > people:
        message = f"{terms.quorum} answers are needed and {people} may give one."
        yield PolicyFinding(f"{at}/quorum", "no_approvers", message, grave=True)
    elif terms.quorum == people and ask and ask.allow_requester is False:
        yield PolicyFinding(f"{at}/quorum", "quorum_tight", "Everybody has to answer, and the requester may not.")


def _find_unknown_people(rule: RuleDoc, people: Collection[str] | None) -> Iterator[tuple[str, str, str]]:
    if people is None:
        return
    named = [(f"/match/user/{number}", name) for number, name in enumerate(rule.match.user or ())]
    named += [(f"/ask{where}", name) for where, name in _list_named_approvers(rule.ask)]
    yield from _report_unknown_people(named, people)


def _list_named_approvers(ask: AskDoc | None) -> list[tuple[str, str]]:
    """Everybody whom the terms name, and where."""
    if ask is None:
        return []
    named = [(f"/approvers/{number}", name) for number, name in enumerate(ask.approvers or ())]
    return named + [(f"/escalate/{number}/to", step.to) for number, step in enumerate(ask.escalate or ())]


def _report_unknown_people(named: list[tuple[str, str]], people: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for where, name in named:
        if "*" not in name and name not in people:
            yield where, "unknown_person", f"There is no one called {name}; make that person or group, or leave it out."


def _check_any_approver(doc: PolicyDocument, groups: Mapping[str, int] | None) -> Iterator[PolicyFinding]:
    """An ask that nobody can answer is a deny, so whoever wants to ask must have somebody to ask."""
    if groups is None or any(groups.values()):
        return
    for name in _BUILT_IN:
        if getattr(doc, name) == "ask":
            yield PolicyFinding(f"/{name}", "no_approvers", "No one may approve what this asks; use deny.", grave=True)


# ---------------------------------------------------------------- questions that no rule asks

_BUILT_IN = ("default", "unknown_tool", "changed_tool")


def _check_default_ask(
    ask: AskDoc, policy: RuleSet, groups: Mapping[str, int] | None, people: Collection[str] | None
) -> Iterator[PolicyFinding]:
    at = "/default_ask"
    if groups is not None:
        yield from _check_approvers(ask, policy.ask, groups, at)
    warned = [
        *_find_late_escalations(ask, policy.ask),
        *(_report_unknown_people(_list_named_approvers(ask), people) if people is not None else ()),
    ]
    for where, code, message in warned:
        yield PolicyFinding(at + where, code, message)


def _find_requester_only_asks(
    doc: PolicyDocument, policy: RuleSet, voters: Collection[tuple[str, ...]], owners: Collection[str]
) -> Iterator[PolicyFinding]:
    """Questions that could be answered, but for the one person whom the agent works for: for them they are a deny."""
    asks = [
        (f"/rules/{number}/ask/allow_requester", compiled.ask)
        for number, (rule, compiled) in enumerate(zip(doc.rules, policy.rules, strict=True))
        if rule.effect == "ask" and rule.enabled and rule.mode != "monitor"
    ]
    if any(getattr(doc, name) == "ask" for name in _BUILT_IN):
        asks.append(("/default_ask/allow_requester", policy.ask))
    for at, terms in asks:
        able = [names[0] for names in voters if terms.may_answer(names)]
        if terms.allow_requester or len(able) != terms.quorum:
            continue
        if barred := sorted({*able} & {*owners}):
            message = f"What agents of {', '.join(barred)} ask here is denied at once: too few others may answer it."
            yield PolicyFinding(at, "requester_only", message)


# ---------------------------------------------------------------- rules among each other


def _find_shadowing_rule(rule: RuleDoc, others: list[RuleDoc], compiled: tuple[Rule, ...]) -> Iterator[str]:
    """Give the first rule that is stricter and matches whatever this one matches; labels only, so it may miss some."""
    if rule.effect == "deny":
        return
    for other, named in zip(others, compiled, strict=True):
        stricter = other.effect == "deny" or (other.effect == "ask" and rule.effect == "allow")
        counts = other.enabled and other.mode == "enforce" and other.expires_at is None and not other.unless
        if stricter and counts and _clause_covers(other.match, rule.match):
            yield named.id
            return


def _clause_covers(wide: ClauseDoc, narrow: ClauseDoc) -> bool:
    if wide.args or wide.when or wide.rate:
        return False
    for name in _LABELS:
        ours, theirs = getattr(wide, name), getattr(narrow, name)
        if ours is None:
            continue
        if theirs is None or not all(any(_glob_covers(one, other) for one in ours) for other in theirs):
            return False
    return True


def _glob_covers(wide: str, narrow: str) -> bool:
    return wide == narrow or ("*" not in narrow and compile_glob(wide)(narrow)) or wide == "*"


def _find_duplicates(doc: PolicyDocument) -> Iterator[PolicyFinding]:
    seen: dict[str, int] = {}
    for number, rule in enumerate(doc.rules):
        said = digest(rule.model_dump(mode="json", exclude={"id", "public_reason", "suggest"}))
        if said in seen:
            yield PolicyFinding(f"/rules/{number}", "twin", f"It says the same as rule {seen[said]} (counted from 0).")
        seen.setdefault(said, number)
