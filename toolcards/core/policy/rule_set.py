"""All rules of one policy version, compiled and indexed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.client.common.lookalikes import LONGEST_LETTER
from toolcards.core.policy import tool_names
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.matching.conditions import Condition, RateCondition, TimeWindowCondition
from toolcards.core.policy.reviewer import Reviewer
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.shell.command_prefix import list_reachable_positions
from toolcards.core.policy.shell.plain.globs import GLOB_SIGNS, may_expand_to


class RuleIndex:
    """Finds the rules that could match a call without evaluating each of them.

    A rule is filed under a condition that must hold whenever it matches: a command that it names, else a tool, else a
    kind of tools. So the index may return too many rules, never too few; evaluation decides which of them match.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.wide = _ToolIndex()  # by skeleton: rules that ask or deny
        self.exact = _ToolIndex()  # as spelled: rules that allow
        self.kinds: dict[str, list[Rule]] = {}
        self.commands: dict[tuple[str, ...], _CommandIndex] = {}  # by the path of a shell command
        self.unindexed: list[Rule] = []
        for rule in rules:
            if rule.heads is not None and rule.focus is not None:
                self.commands.setdefault(rule.focus, _CommandIndex()).add(rule, rule.heads)
            elif rule.tools:
                patterns = map(tool_names.make_skeleton_pattern, rule.tools) if rule.wide else rule.tools
                (self.wide if rule.wide else self.exact).add(rule, set(patterns))
            elif rule.kinds:
                for kind in set(rule.kinds):
                    self.kinds.setdefault(kind, []).append(rule)
            else:
                self.unindexed.append(rule)

    def find_candidates(self, context: EvaluationContext) -> Iterable[Rule]:
        """Return the rules that could match, without duplicates."""
        request = context.request
        candidates = [
            *self.unindexed,
            *self.wide.find_rules(request.names.skeletons),
            *self.exact.find_rules(request.names.exact_with_source),
        ]
        if self.kinds:
            for kind in request.kinds:
                candidates += self.kinds.get(kind, ())
        for path, commands in self.commands.items():
            candidates += commands.find_rules(context, path)
        return {rule.id: rule for rule in candidates}.values()


class _ToolIndex:
    """Rules by the tools that they name."""

    def __init__(self) -> None:
        self.names: dict[str, list[Rule]] = {}
        self.starts: dict[str, list[Rule]] = {}  # the part before the first *

    def add(self, rule: Rule, patterns: Iterable[str]) -> None:
        for name in patterns:
            start, star, _ = name.partition("*")
            (self.starts if star else self.names).setdefault(start, []).append(rule)

    def find_rules(self, spellings: Iterable[str]) -> list[Rule]:
        """Return the rules that name one of these, possibly with duplicates."""
        matching_rules: list[Rule] = []
        for name in spellings:
            matching_rules += self.names.get(name, ())
            if self.starts:  # a name in a rule has at most 200 characters
                for length in range(min(len(name), 200 * LONGEST_LETTER) + 1):
                    matching_rules += self.starts.get(name[:length], ())
        return matching_rules


@dataclass(slots=True)
class _PrefixNode:
    """Rules whose words end here, and the next words of other rules."""

    rules: list[Rule] = field(default_factory=list)
    children: dict[str, _PrefixNode] = field(default_factory=dict)


class _CommandIndex:
    """Rules about the shell command at one path: a tree over the words of the commands that they name."""

    def __init__(self) -> None:
        self.every: list[Rule] = []
        self.programs: dict[str, _PrefixNode] = {}

    def add(self, rule: Rule, heads: tuple[tuple[str, ...], ...]) -> None:
        self.every.append(rule)
        for name, *words in heads:
            node = self.programs.setdefault(name, _PrefixNode())
            for word in words:
                node = node.children.setdefault(word, _PrefixNode())
            node.rules.append(rule)

    def find_rules(self, context: EvaluationContext, path: tuple[str, ...]) -> list[Rule]:
        """Return the rules whose words may run, in the wide reading.

        The wide reading includes the narrow one.
        """
        if context.scripts(path) == ():
            return []
        script = context.script(path)
        if script is None or script.hidden:
            return self.every  # no command, or one that may run more than is visible
        matching_rules: list[Rule] = []
        for name in script.find_named_programs(self.programs):
            matching_rules += _list_subtree_rules(self.programs[name])
        for name in script.views.keys() & self.programs.keys():
            for view in script.views[name]:
                matching_rules += _follow_words(self.programs[name], view[1:], context)
        return matching_rules


def _list_subtree_rules(node: _PrefixNode) -> list[Rule]:
    return [*node.rules, *(rule for below in node.children.values() for rule in _list_subtree_rules(below))]


def _match_branches(word: str, node: _PrefixNode) -> Iterable[str]:
    """Return the next words of rules that this word may expand to."""
    if GLOB_SIGNS.search(word) is None:
        return (word,) if word in node.children else ()
    return [next_word for next_word in node.children if may_expand_to(word, next_word)]


def _follow_words(node: _PrefixNode, words: tuple[str, ...], context: EvaluationContext) -> list[Rule]:
    """Return the rules of all nodes that the words lead to.

    Only options and their values may be between the words.
    """
    matching_rules: list[Rule] = []
    pending = [(node, {0})]
    while pending:
        node, places = pending.pop()
        matching_rules += node.rules
        if not node.children:
            continue
        context.step(len(words) >> 8)  # 0 for a command of normal length
        after: dict[str, set[int]] = {}
        for place in list_reachable_positions(words, places):
            for word in _match_branches(words[place], node) if place < len(words) else ():
                after.setdefault(word, set()).add(place + 1)
        pending += [(node.children[word], reached_nodes) for word, reached_nodes in after.items()]
    return matching_rules


BUILT_IN = ("default", "unknown_tool", "changed_tool")


@dataclass(frozen=True)
class RuleSet:
    """An immutable, numbered version of all rules, ready for evaluation."""

    version: int = 0
    sha256: str = ""
    default: Effect = Effect.ASK
    unknown_tool: Effect | None = None
    changed_tool: Effect | None = None
    rules: tuple[Rule, ...] = ()
    ask: AskTerms = AskTerms()
    leaves_questions: bool = False  # what an agent asks at its own terminal is answered there
    reviewers: Mapping[str, Reviewer] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(sorted(self.rules, key=lambda rule: rule.id))

    def candidates(self, context: EvaluationContext) -> Iterable[Rule]:
        """Return the rules that could match, without duplicates."""
        return self._index.find_candidates(context)

    def names(self, tool: str) -> bool:
        """Return whether an active rule names exactly this tool.

        Such a tool is known (contract 8 l).
        """
        return tool in self._tool_names

    @cached_property
    def _tool_names(self) -> frozenset[str]:
        active_rules = (rule for rule in self.rules if rule.enabled and not rule.monitor)
        return frozenset(tool for rule in active_rules for tool in rule.tools if "*" not in tool)

    @cached_property
    def rates(self) -> frozenset[tuple[str, int]]:
        """Return (scope, seconds) of every rate condition, the keys of `PolicyRequest.counts`."""
        return frozenset((rate.scope, rate.per) for rate in self._rate_conditions)

    @cached_property
    def changes_with_time(self) -> bool:
        """Whether the same call may be decided otherwise later.

        A rule that expires, a time of day or a rate can do that.
        """
        moving = (RateCondition, TimeWindowCondition)
        return any(rule.expires_at for rule in self.rules) or any(
            isinstance(condition, moving) for condition in self._list_conditions()
        )

    def _list_conditions(self) -> list[Condition]:
        clauses = [clause for rule in self.rules for clause in (rule.match, *rule.unless)]
        return [condition for clause in clauses for condition in clause.conditions]

    @cached_property
    def highest_rate(self) -> int:
        """Return the highest number of calls that a rate condition allows."""
        return max((rate.over for rate in self._rate_conditions), default=0)

    @cached_property
    def _rate_conditions(self) -> tuple[RateCondition, ...]:
        return tuple(condition for condition in self._list_conditions() if isinstance(condition, RateCondition))

    @cached_property
    def _by_id(self) -> dict[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    def rule_sha256(self, rule: str) -> str:
        """Return the content hash for grants of this rule, or ""."""
        if rule in BUILT_IN:
            return self._built_in[rule]
        return self._by_id[rule].sha256 if rule in self._by_id else ""

    @cached_property
    def _built_in(self) -> dict[str, str]:
        terms = self.document.get("default_ask")
        return {name: digest({"builtin": name} | ({"ask": terms} if terms else {})) for name in BUILT_IN}
