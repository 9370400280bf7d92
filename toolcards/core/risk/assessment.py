"""The risk of a waiting call: a level for sorting, and the hints that raise it, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from toolcards.client.common import tool_kinds
from toolcards.core.calls.card import Card
from toolcards.core.policy.shell.catalogs import CommandTool, find_tool
from toolcards.core.redaction.masks import has_mask
from toolcards.core.risk.commands import (
    find_code_hints,
    find_command_hints,
    find_masked_hints,
    find_word_list_hints,
)
from toolcards.core.risk.hints import (
    CHANGES_OVER_HTTP,
    CHANGES_ROWS,
    DELETES,
    MANY_PEOPLE,
    MOVES_LARGE_AMOUNT,
    NETWORK,
    RELEASES,
    SENDS_OR_PAYS,
    TOO_LARGE,
    Hint,
)
from toolcards.core.risk.values import (
    Leaf,
    changes_rows,
    find_location_hints,
    is_destructive_sql,
    is_large_amount,
    list_leaves,
    reaches_many,
)

LEVELS = ("high", "medium", "low")
MAX_REASONS = 3  # reasons on a card
MAX_COMMANDS = 20  # commands of one call that the grammar reads; the text of the others is searched
MIN_DEEP_LEVEL = 3  # agents in a path
_COMMAND_FIELDS = frozenset({"command", "commands", "commandline", "cmd", "script", "shell", "bash"})
_CODE_FIELDS = frozenset({"code", "source", "expression", "javascript", "python"})
_QUERY_FIELDS = frozenset({"sql", "query", "queries", "statement", "statements"})
_ACTION_FIELDS = frozenset({"action", "operation", "type", "method", "event"})
_METHOD_FIELDS = frozenset({"method", "verb", "http_method", "httpmethod"})
_CHANGING_METHODS = frozenset({"DELETE", "PUT", "PATCH"})
_RELEASES = frozenset({"merge", "deploy", "publish", "release", "rollback", "promote"})
_LOOKING_KINDS = frozenset({"read", "search", "think", "fetch"})
_PAYS = frozenset({"pay", "payment", "payout", "transfer", "charge", "refund", "buy", "wire", "withdraw", "purchase"})
_SENDS = frozenset({"send", "order", "email", "publish", "deploy", "post"}) | _PAYS


@dataclass(frozen=True, slots=True)
class Risk:
    """One of `LEVELS`, with the reasons, gravest first."""

    level: str
    reasons: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Return its position among the levels, 0 for the highest risk."""
        return LEVELS.index(self.level)


class StoredCall(Protocol):
    """A stored call, with and without masks."""

    def as_card(self) -> Card:
        """Return all of it, secrets included."""

    def as_shown_card(self) -> Card:
        """Return what people without the right to secrets see."""


def assess_call_risk(call: StoredCall) -> Risk:
    """Return the risk of a stored call.

    All of its input counts: what is masked runs, too.
    """
    visible = call.as_shown_card()
    is_whole = not has_mask(visible.input) and not (visible.approval and has_mask(visible.approval.edited))
    return assess_risk(visible if is_whole else call.as_card(), visible)


def assess_risk(card: Card, visible: Card | None = None) -> Risk:
    """Return the risk of the call; `visible` is the card with masks.

    High with a grave hint, low if the rule is marked so, else medium.
    """
    severity = str(card.approval.terms.get("severity", "")) if card.approval else ""
    masked_hints = _find_masked_hints(card, visible) if visible is not None and visible is not card else ()
    hints = sorted(dict.fromkeys([*masked_hints, *_find_hints(card, severity)]), key=lambda hint: not hint.is_grave)
    is_high = bool(hints) and hints[0].is_grave
    level = "high" if is_high else "low" if severity == "low" else "medium"
    return Risk(level, tuple(hint.text for hint in hints[:MAX_REASONS]))


def _find_hints(card: Card, severity: str) -> Iterator[Hint]:
    tool = card.tool
    if severity in ("high", "critical"):
        yield Hint(f"marked {severity} risk by rule", is_grave=True)
    kinds = {tool.kind, *tool_kinds.find_kinds(tool.name, tool.source, claimed_kind=tool.kind)}
    if "delete" in kinds:
        yield DELETES
    yield from _find_input_hints(card.input, tool.name, kinds)
    if card.approval is not None and card.approval.has_edited:  # the edit that a first approver proposes
        yield from _find_input_hints(card.approval.edited, tool.name, kinds)
    words = tool_kinds.split_words(tool.name)
    if _SENDS.intersection(words):
        yield SENDS_OR_PAYS
    if _RELEASES.intersection(words):
        yield RELEASES
    if tool.kind == "fetch":
        yield NETWORK
    if len(card.agent_path) >= MIN_DEEP_LEVEL:
        yield Hint(f"nested sub-agent (level {len(card.agent_path)})")


def _find_masked_hints(card: Card, visible: Card) -> Iterator[Hint]:
    """Yield the hints of commands that the visible card masks."""
    form = find_tool(card.tool.name)
    pairs = [(card.input, visible.input)]
    if card.approval is not None and visible.approval is not None:
        pairs.append((card.approval.edited, visible.approval.edited))
    for value, visible_value in pairs:
        for leaf, visible_leaf in zip(list_leaves(value)[0], list_leaves(visible_value)[0], strict=False):
            if _holds_command(leaf, form) and leaf.value != visible_leaf.value:
                yield from find_masked_hints(leaf.value, str(visible_leaf.value))


def _find_input_hints(value: Any, tool: str, kinds: set[str]) -> Iterator[Hint]:
    leaves, is_complete = list_leaves(value)
    if not is_complete:
        yield TOO_LARGE
    if not kinds <= _LOOKING_KINDS and reaches_many(leaves):
        yield MANY_PEOPLE
    yield from _find_shell_hints(value, leaves, tool)
    is_read_only = kinds <= _LOOKING_KINDS
    can_pay = bool(_PAYS.intersection(tool_kinds.split_words(tool))) or any(
        leaf.field in _ACTION_FIELDS
        and isinstance(leaf.value, str)
        and _PAYS.intersection(tool_kinds.split_words(leaf.value))
        for leaf in leaves
    )
    for leaf in leaves:
        if isinstance(leaf.value, str):
            yield from find_location_hints(leaf, is_read_only=is_read_only)
            is_query = leaf.field in _QUERY_FIELDS and not is_read_only
            may_be_prose = leaf.field == "query"
            if is_query and is_destructive_sql(leaf.value, may_be_prose=may_be_prose):
                yield DELETES
            elif is_query and changes_rows(leaf.value, may_be_prose=may_be_prose):
                yield CHANGES_ROWS
            if leaf.field in _METHOD_FIELDS and leaf.value.upper() in _CHANGING_METHODS:
                yield CHANGES_OVER_HTTP
            if leaf.field in _CODE_FIELDS:
                yield from find_code_hints(leaf.value)
        if can_pay and is_large_amount(leaf):
            yield MOVES_LARGE_AMOUNT


def _find_shell_hints(value: Any, leaves: list[Leaf], tool: str) -> Iterator[Hint]:
    """Yield the hints of every complete command in the input."""
    form = find_tool(tool)
    if form.foreign:
        for leaf in leaves:
            if isinstance(leaf.value, str):
                yield from find_code_hints(leaf.value)
        return
    word_lists = tuple(_list_word_lists(value, [path[-1] for path in form.paths], form.list))
    for words in word_lists:
        yield from find_word_list_hints(words)
    single_words = {word for words in word_lists for word in words}
    texts = [leaf.value for leaf in leaves if _holds_command(leaf, form) and leaf.value not in single_words]
    for text in texts[:MAX_COMMANDS]:
        yield from find_command_hints(text)
    if len(texts) > MAX_COMMANDS:
        yield from find_code_hints("\n".join(texts[MAX_COMMANDS:]))


def _holds_command(leaf: Leaf, form: CommandTool) -> bool:
    is_text = isinstance(leaf.value, str) and leaf.value != ""
    return is_text and (leaf.field in _COMMAND_FIELDS or (form.is_known and not leaf.field))


def _list_word_lists(value: Any, fields: list[str], kind: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that are lists of words, and those with a list of arguments next to the program."""
    if not isinstance(value, dict):
        return
    for field in fields or ["command", "cmd"]:
        inner = value.get("action") if field == "command" and "command" not in value else value
        command = inner.get(field) if isinstance(inner, dict) else None
        arguments = value.get("args", value.get("arguments"))
        words = [command, *arguments] if isinstance(command, str) and isinstance(arguments, list) else command
        if isinstance(words, list) and kind != "lines" and words and all(isinstance(word, str) for word in words):
            yield tuple(words)
