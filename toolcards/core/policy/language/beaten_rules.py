"""Finds rules that can never win: on every example of their calls, a stricter rule decides, or the rule is not needed.

The examples are made from the rule and from the exceptions of the stricter rules: tools, labels, and values for the
conditions. A rule without an example is not judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcards.client.common.tool_kinds import find_kind
from toolcards.core.policy.evaluation import MatchedRules, evaluate
from toolcards.core.policy.language.document_model import ArgumentDoc, ClauseDoc, PolicyDocument
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import Effect, Rule
from toolcards.core.policy.rule_set import RuleSet
from toolcards.core.policy.shell.catalogs import find_tool

_MAX_EXAMPLES, _MAX_EXCEPTIONS = 200, 100  # beyond, a rule is not judged
_ROOT = "/home/dev/work/project"
_FILES = (f"{_ROOT}/src/a.py", "/srv/a.py")  # inside the project and outside
_FILE_KINDS = frozenset({"read", "edit", "delete", "move"})
# A tool of each kind, for rules that name none.
_TOOLS = {
    "read": "Read", "edit": "Edit", "delete": "delete_file", "move": "move_file", "search": "Grep", "execute": "Bash",
    "think": "TodoWrite", "fetch": "WebFetch", "switch_mode": "ExitPlanMode", "other": "some_tool",
}  # fmt: skip
# A command with each effect; together they cover every command.
_COMMANDS = {
    "none": "ls", "writes": "touch /srv/a", "deletes": "rm /srv/a", "sends": "curl https://example.com/",
    "runs": "some-program", "project": "pytest -q", "scripts": "./scripts/a.sh", "git": "git add a",
    "packages": "npm ci", "files": "mkdir a", "containers": "docker compose up -d",
}  # fmt: skip
_VALUES: dict[str, Callable[[Any], Any]] = {
    "eq": lambda operand: operand,
    "in": lambda operand: operand,
    "cmd": str,
    "prefix": str,
    "glob": lambda operand: _spell(str(operand)),
    "path_under": lambda operand: f"{str(operand).rstrip('/')}/a",
    "host_in": lambda operand: f"https://{_spell(str(operand))}/",
    "inside_project": lambda _: _FILES[0],
    "exists": lambda _: "a",
    "effect": lambda operand: _COMMANDS.get(operand, _FILES[0]),
}  # a value for which the condition holds, by operator


@dataclass(frozen=True)
class BeatenRule:
    """A rule that never wins: an example of its calls, and the stricter rules that decide about them."""

    example: str
    winners: tuple[Rule, ...]


def find_winners(policy: RuleSet, rule_id: str) -> BeatenRule | None:
    """Return the stricter rules that leave a rule without effect, or None."""
    docs = dict(
        zip((rule.id for rule in policy.rules), PolicyDocument.model_validate(policy.document).rules, strict=True)
    )
    rule = next(rule for rule in policy.rules if rule.id == rule_id)
    if rule.effect is Effect.DENY or rule.monitor or not rule.enabled or docs[rule_id].unless:
        return None
    match = docs[rule_id].match
    beaten = _judge(policy, rule, _list_examples(match))
    if beaten is None:
        return None
    exceptions = [clause for winner in beaten.winners for clause in docs[winner.id].unless or ()]
    if len(exceptions) > _MAX_EXCEPTIONS:
        return None
    further_examples = (example for clause in exceptions for example in _list_examples(match, clause))
    if _judge(policy, rule, itertools.chain(_list_examples(match), further_examples)) is None:
        return None
    return beaten


def _judge(policy: RuleSet, rule: Rule, examples: Iterable[PolicyRequest]) -> BeatenRule | None:
    """Return which rules beat this one on these examples, None if it wins one or none shows it."""
    example, winners = "", dict[str, Rule]()
    for count, request in enumerate(examples, 1):
        matches = evaluate(policy, request)
        if rule not in (*matches.ask, *matches.allow):
            continue  # no example after all
        stricter = _list_stricter(matches, rule.effect)
        wins = not stricter and not _is_decided_anyway(matches, policy, rule)
        if wins or count > _MAX_EXAMPLES:
            return None
        example = example or (_describe(request) if stricter else "")
        winners |= {each.id: each for each in stricter}
    return BeatenRule(example, tuple(winners.values())) if winners else None


def _list_stricter(matches: MatchedRules, effect: Effect) -> list[Rule]:
    return [rule for rule in (*matches.deny, *(matches.ask if effect is Effect.ALLOW else ())) if not rule.expires_at]


def _is_decided_anyway(matches: MatchedRules, policy: RuleSet, rule: Rule) -> bool:
    """Return whether the call has the rule's effect without it."""
    same = matches.ask if rule.effect is Effect.ASK else matches.allow
    return len(same) > 1 or policy.default is rule.effect


def _describe(request: PolicyRequest) -> str:
    value = next((value for value in request.input.values() if isinstance(value, str)), "")
    return f"{request.tool} {value}".strip()


# ---------------------------------------------------------------- examples


def _list_examples(match: ClauseDoc, exception: ClauseDoc | None = None) -> Iterator[PolicyRequest]:
    """Yield calls for which the conditions may hold, and those of the exception of another rule too."""
    both = [match, exception or ClauseDoc()]
    if match.when or match.rate:
        return
    labels = itertools.product(
        *(_list_names(both, name) for name in ("source", "agent", "run", "env", "user", "project"))
    )
    tools = match.tool or (exception and exception.tool) or [_TOOLS[kind] for kind in _list_kinds(both)]
    for tool, (source, agent, run, env, user, root) in itertools.product(map(_spell, tools), labels):
        for arguments in _list_inputs([each for clause in both for each in clause.args or ()], tool):
            yield PolicyRequest.for_tool(
                tool, source=source, input=arguments, agent_path=(agent or "agent",), run=run, env=env,
                user=(user,) if user else (), root=root or _ROOT,
            )  # fmt: skip


def _list_names(clauses: list[ClauseDoc], label: str) -> list[str]:
    """Return names that the first of the clauses covers which has this label."""
    patterns = next((names for clause in clauses if (names := getattr(clause, label))), [""])
    return [_spell(pattern) for pattern in patterns]


def _list_kinds(clauses: list[ClauseDoc]) -> Iterable[str]:
    return next((clause.kind for clause in clauses if clause.kind), _TOOLS)


def _list_inputs(conditions: list[ArgumentDoc], tool: str) -> Iterator[dict[str, Any]]:
    """Yield inputs for which the conditions hold; each command or file if they are about neither."""
    command_paths = ["/" + "/".join(path) for path in find_tool(tool).paths]
    main = [*command_paths, *(["/file_path"] if find_kind(tool) in _FILE_KINDS else [])][:1]
    choices = [_list_values(condition, (main or [""])[0]) for condition in conditions]
    if not any(condition.path in {"", *main} for condition in conditions) and main:
        choices.append([(main[0], value) for value in (_COMMANDS.values() if command_paths else _FILES)])
    for values in itertools.product(*choices):
        arguments: dict[str, Any] = {}
        for path, value in values:
            _set_value(arguments, path, value)
        yield arguments


def _list_values(condition: ArgumentDoc, main: str) -> list[tuple[str, Any]]:
    """Return (place, value) pairs for which the condition holds."""
    if condition.op == "absent":
        return [("", None)]
    operands = condition.value if isinstance(condition.value, list) else [condition.value]
    make = _VALUES.get(condition.op)
    return [(condition.path or main, make(operand)) for operand in operands] if make else []


def _set_value(arguments: dict[str, Any], path: str, value: Any) -> None:
    *folders, name = path.removeprefix("/").split("/")
    for folder in folders:
        arguments = arguments.setdefault(folder, {})
    if name:
        arguments[name] = value


def _spell(pattern: str) -> str:
    """Return a name that the pattern covers."""
    return pattern.replace("*", "x")
