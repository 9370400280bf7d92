"""The checks of the lint that need only one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from toolcards.core.policy.language.document_model import ArgumentDoc, AskDoc, RuleDoc
from toolcards.core.policy.rule import AskTerms, Rule
from toolcards.core.policy.shell.command_prefix import explain_partial_allow, parse_prefix

RuleProblem: TypeAlias = tuple[str, str, str]  # the place in the rule, the code, the message
_Check = Callable[[RuleDoc, Rule], Iterable[RuleProblem]]
CHECKS: list[_Check] = []
_LOOSE_OPERATORS = frozenset({"prefix", "glob", "re2"})


def _register_check(check: _Check) -> _Check:
    CHECKS.append(check)
    return check


@_register_check
def _check_allows_everything(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    bare = rule.match.model_dump(exclude_none=True, exclude={"tool"})
    if rule.effect == "allow" and not bare and (rule.match.tool is None or "*" in rule.match.tool):
        yield "/match", "allows_everything", "This rule allows every call. Use `default` for that."


@_register_check
def _check_unused_terms(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    if rule.ask is not None and rule.effect != "ask":
        yield "/ask", "unused", f"`ask` has no effect in a rule with the effect {rule.effect}."


@_register_check
def _check_review(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    if rule.review is None:
        return
    if rule.effect != "ask":
        yield "/review", "unused", f"`review` has no effect in a rule with the effect {rule.effect}."
    elif (
        rule.severity in {"high", "critical"}
        or compiled_rule.ask.reauth
        or max(compiled_rule.ask.quorum, compiled_rule.ask.deny_quorum) > 1
    ):
        yield "/review", "review_only_denies", "Only people can approve these calls. The reviewer can deny them."


@_register_check
def _check_escalation(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    for where, code, message in find_late_escalations(rule.ask, compiled_rule.ask):
        yield f"/ask{where}", code, message


def find_late_escalations(ask: AskDoc | None, terms: AskTerms) -> Iterator[RuleProblem]:
    """Report escalations that are due after the approval has expired."""
    for number, step in enumerate((ask.escalate if ask else None) or ()):
        if terms.decide_ttl and float(step.after) >= terms.decide_ttl:
            yield f"/escalate/{number}/after", "too_late", "The approval has expired by then, so no one is notified."


@_register_check
def _check_home_paths(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    if rule.effect != "allow":
        return
    for where, argument in list_arguments(rule):
        values = argument.value if isinstance(argument.value, list) else [argument.value]
        if argument.op == "path_under" and where.startswith("/match") and any(str(v).startswith("~") for v in values):
            yield (
                where,
                "never_matches",
                "The meaning of ~ is not certain, so this allows nothing. Use the absolute path.",
            )


@_register_check
def _check_commands(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    for where, argument in list_arguments(rule):
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
                yield where, "cmd_star", f"“{text}”: more words can always follow. Remove the *."
            elif rule.effect == "allow" and not where.startswith("/unless") and (why := explain_partial_allow(words)):
                yield where, "cmd_forms", f"“{text}”: {why}."
            elif rule.effect == "deny" and any(word.startswith("-") for word in words[1:]):
                yield where, "cmd_flags", f"“{text}”: the same flags can be spelled in other ways (-r -f, --force)."


@_register_check
def _check_loose_exceptions(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    for where, argument in list_arguments(rule):
        if argument.op not in _LOOSE_OPERATORS:
            continue
        if where.startswith("/unless") and rule.effect != "allow":
            yield where, "loose_exception", "Later flags can change the meaning; use eq, or cmd for commands."
        elif rule.effect == "allow" and argument.op != "re2" and argument.path in {"/command", "/cmd"}:
            yield where, "prefix_of_command", "The beginning of a command does not limit what follows; use cmd."


@_register_check
def _check_rate_of_allow(rule: RuleDoc, compiled_rule: Rule) -> Iterator[RuleProblem]:
    if rule.effect == "allow" and rule.match.rate is not None:
        yield (
            "/match/rate",
            "rate_of_allow",
            "It allows only after many calls; an ask with this rate may be what you want.",
        )


def list_arguments(rule: RuleDoc) -> Iterator[tuple[str, ArgumentDoc]]:
    """Yield all conditions on the input with their places in the rule."""
    clauses = [
        ("/match", rule.match),
        *((f"/unless/{number}", exception) for number, exception in enumerate(rule.unless or ())),
    ]
    for where, clause in clauses:
        for number, argument in enumerate(clause.args or ()):
            yield f"{where}/args/{number}", argument
