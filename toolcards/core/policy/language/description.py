"""A rule as one English sentence, for people who read rules and as the reason of rules without one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolcards.core.policy.matching.matchers import MATCHERS
from toolcards.core.policy.shell.work.classes import WORK

if TYPE_CHECKING:
    from toolcards.core.policy.language.document_model import ArgumentDoc, ClauseDoc, RuleDoc
    from toolcards.core.policy.rule import Rule

MOST_NAMES = 4  # of a list
_VERBS = {"allow": "Allow", "ask": "Ask", "deny": "Deny"}


def describe_rule(rule: RuleDoc | Rule) -> str:
    """Return the rule as a sentence.

    Example: "Ask when Bash.command starts with “git push” unless …".
    """
    sentence = getattr(rule, "sentence", None)
    if sentence is not None:
        return str(sentence)
    text = f"{_VERBS[rule.effect]} {_describe_clause(rule.match)}"  # type: ignore[arg-type]
    if rule.unless:
        text += ", unless " + ", or ".join(_describe_exceptions(rule.unless))  # type: ignore[arg-type]
    return text + "."


def _describe_exceptions(clauses: Iterable[ClauseDoc]) -> list[str]:
    """Return each exception; those that ask the same of several arguments are one."""
    arguments: dict[str, list[str]] = {}  # predicate -> the arguments
    conditions = []
    for clause in clauses:
        if clause.args and len(clause.args) == 1 and clause.model_fields_set == {"args"}:
            where, predicate = _split_argument(clause.args[0], "input")
            arguments.setdefault(predicate, []).append(where)
        else:
            conditions.append(_describe_clause(clause).removeprefix("when "))
    return [f"{_join_names(_shorten(names))} {predicate}" for predicate, names in arguments.items()] + conditions


def _describe_clause(clause: ClauseDoc) -> str:
    conditions = list(_describe_conditions(clause))
    return "when " + " and ".join(conditions) if conditions else "every call"


def _describe_conditions(clause: ClauseDoc) -> Iterator[str]:
    arguments = clause.args or []
    subject = _join_names(clause.tool) if clause.tool else "input"
    if clause.tool and not arguments:
        yield f"{subject} is called"
    if clause.kind:
        yield f"the tool’s kind is {_join_names(clause.kind)}"
    for number, argument in enumerate(arguments):
        yield _describe_argument(argument, subject if number == 0 else "input")
    if clause.source:
        yield f"it comes from {_join_names(clause.source)}"
    if clause.agent:
        yield f"the agent is {_join_names(clause.agent)}"
    if clause.user:
        yield f"it acts for {_join_names(clause.user)}"
    if clause.env:
        yield f"it runs in {_join_names(clause.env)}"
    if clause.run:
        yield f"it is in the run {_join_names(clause.run)}"
    if clause.project:
        yield f"the run works in {_join_names(clause.project)}"
    if clause.when:
        days = ", ".join(clause.when.days) if clause.when.days else "every day"
        yield f"it is {days} from {clause.when.start} to {clause.when.end} ({clause.when.tz})"
    if clause.rate:
        scope = "in all" if clause.rate.scope == "all" else f"per {clause.rate.scope}"
        yield f"there are more than {clause.rate.over} calls in {clause.rate.per} s {scope}"


def _describe_argument(argument: ArgumentDoc, subject: str) -> str:
    return " ".join(_split_argument(argument, subject))


def _split_argument(argument: ArgumentDoc, subject: str) -> tuple[str, str]:
    """Return the argument's name and what is asked of it."""
    where = subject + "".join(f".{step}" for step in argument.path.split("/")[1:])
    if not argument.path and MATCHERS[argument.op].command:
        where = "the command"
    if not argument.path and argument.op == "inside_project":
        names = argument.value if isinstance(argument.value, list) else [argument.value]
        manifests = [name for name in names if isinstance(name, str)]
        return "all that it changes", "is inside the project" + (
            f" or {_join_names(_shorten(manifests))}" if manifests else ""
        )
    if argument.op in _PHRASES and not argument.path:
        names = argument.value if isinstance(argument.value, list) else [argument.value]
        return "the call", _PHRASES_START.get(argument.op, "") + _join_names([_PHRASES[argument.op][n] for n in names])
    if argument.op == "effect":
        return where, _describe_effects(argument.value)
    label = MATCHERS[argument.op].label
    value = "" if argument.value is None or argument.value is True else " " + _format_value(argument.value)
    return f"{'every ' if argument.quant == 'all' else ''}{where}", label + value


_EFFECTS = {
    "runs": "runs other programs", "none": "only reads", "project": "runs tests or builds",
    "scripts": "runs scripts of the project", "git": "works in local git", "packages": "installs packages",
    "files": "changes named files", "edits": "edits files", "containers": "runs local containers",
    "fetches": "fetches public addresses", "shares": "pushes or works on pull requests",
    "pushes": "pushes the current branch",
    "looks": "is one tool that reads",
}  # fmt: skip
_PHRASES = {
    "harms": {
        "system": "deletes a part of the system", "history": "rewrites a protected branch",
        "unread-code": "runs unread code from the network", "agent-permissions": "changes what agents may do",
        "gate": "changes Toolcards",
    },
    "tool_only": {
        "reads": "reads by its name", "queries": "runs a query that only reads", "notes": "changes the agent’s notes",
        "pages": "shows a page of this computer",
    },
    "touches": {"secrets": "secrets", "private-address": "private addresses"},
}  # fmt: skip
_PHRASES["avoids"] = _PHRASES["touches"]
_PHRASES_START = {"touches": "touches ", "avoids": "does not touch ", "tool_only": "only "}


def _describe_effects(value: Any) -> str:
    """Return the effects as verbs: deletes, writes or runs other programs."""
    names = value if isinstance(value, list) else [value]
    names = [name for name in names if name != "looks" or "none" not in names]
    if set(WORK) <= {*names}:
        names = [name for name in names if name not in WORK]
        return _join_names([*(_EFFECTS.get(name, name) for name in names), "works in the project"])
    return _join_names([_EFFECTS.get(name, name) for name in names])


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return _join_names(_shorten([_format_value(item) for item in value]))
    return f"“{value}”" if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shorten(names: list[str]) -> list[str]:
    """Return the first names, and how many more there are."""
    return names[:MOST_NAMES] + ([f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else [])


def _join_names(names: list[Any]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(map(str, names[:-1]))} or {names[-1]}"
