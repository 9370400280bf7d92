"""Rules suggested from a call, from exactly its arguments to all calls of its kind, with past matches."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from posixpath import dirname
from typing import Any

from dashboard.policy.simulation.past_calls import Span, iterate_calls_of_tool_first
from toolcards.client.common import tool_kinds
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import RuleSet, decide
from toolcards.core.policy.language import document as documents
from toolcards.core.policy.language.document import PolicyError
from toolcards.core.policy.matching.hosts import parse_url
from toolcards.core.policy.shell.command_prefix import explain_partial_allow, parse_prefix
from toolcards.core.policy.shell.script import Likelihood, read_line
from toolcards.core.redaction.masks import has_mask
from toolcards.encryption import get_redactor
from toolcards.models import ToolCall

COMMANDS = ("command", "cmd", "script")
PATHS = ("file_path", "path", "filename", "filepath", "notebook_path", "target_file")
URLS = ("url", "uri", "href")
LOOKED_AT = Span(calls=5_000, days=30)
SECONDS = 0.5
LARGEST = 4_000  # characters of an argument that a rule may spell out
_WORD = re.compile(r"[A-Za-z0-9_./:@%+,=\-]{1,80}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One rung: a rule with the conditions `match`.

    `count` past calls match it, `mine` of them by this agent, `in_run` of them in this run.
    """

    name: str
    words: str
    match: dict[str, Any]
    count: int = 0
    mine: int = 0
    in_run: int = 0


@dataclass(frozen=True, slots=True)
class CountedSuggestions:
    """All rungs for a call, narrow first; `partial` if there was no time to count all calls."""

    rungs: list[Suggestion]
    examined_count: int
    partial: bool


# ---------------------------------------------------------------- the rungs


def suggest_rules(card: Card) -> list[Suggestion]:
    """Return the rules that this call suggests, without counts.

    A tool whose name would be a pattern has none.
    """
    if "*" in card.tool.name or "," in card.tool.name:
        return []
    tool: dict[str, Any] = {"tool": [card.tool.name]}
    if card.tool.source and not re.search(r"[*,]", card.tool.source):
        tool["source"] = [card.tool.source]
    suggestions = [Suggestion(name, words, tool | {"args": args}) for name, words, args in _suggest_for_input(card)]
    suggestions.append(Suggestion("tool", f"any call of {card.tool.name}", tool))
    kinds = tool_kinds.find_kinds(card.tool.name, card.tool.source, claimed_kind=card.tool.kind)
    if len(kinds) == 1 and kinds != ("other",):
        suggestions.append(Suggestion("kind", f"any “{kinds[0]}” tool", {"kind": [kinds[0]]}))
    return [suggestion for suggestion in suggestions if _is_valid(suggestion)]


_RungParts = tuple[str, str, list[dict[str, Any]]]


def _suggest_for_input(card: Card) -> Iterator[_RungParts]:
    arguments = card.original_input if card.repair == "edited" else card.input
    if not card.has_input or _holds_secret(arguments):
        return
    if len(repr(arguments)) <= LARGEST:
        yield "exact", "exactly these arguments", [{"path": "", "op": "eq", "value": arguments}]
    if not isinstance(arguments, dict):
        return
    for keys, about in ((COMMANDS, _suggest_for_command), (PATHS, _suggest_for_path), (URLS, _suggest_for_url)):
        key = next((key for key in keys if isinstance(arguments.get(key), str) and len(arguments[key]) <= LARGEST), "")
        if key:
            yield from about(f"/{key}", arguments[key], len(arguments) > 1)


def _suggest_for_command(path: str, line: str, has_others: bool) -> Iterator[_RungParts]:
    if has_others:
        yield "command", "the same command", [{"path": path, "op": "eq", "value": line}]
    parts = read_line(line).segments
    words = [part.words for part in parts]
    if any(part.opaque for part in parts) or not all(all(map(_WORD.fullmatch, part_words[:2])) for part_words in words):
        return  # a rule cannot name the programs of an unreadable line
    deleting = [part.words for part in parts if part.has_effect("deletes") is Likelihood.YES]
    if prefixes := [prefix for prefix in _list_prefixes(deleting) if not _deletes_anyway(prefix)]:
        yield (
            "deletes",
            f"{_list_names(prefixes)} when it deletes or overwrites, however the options are spelled",
            [_build_command_condition(path, prefixes), {"path": path, "op": "effect", "value": "deletes"}],
        )
    two = _list_prefixes(words)
    programs = list(dict.fromkeys(part_words[0] for part_words in words))
    if two != programs:
        yield (
            "words",
            f"commands that start with {_list_names(two)}{_find_caution(two)}",
            [_build_command_condition(path, two)],
        )
    yield (
        "program",
        f"commands that start with {_list_names(programs)}{_find_caution(programs)}",
        [_build_command_condition(path, programs)],
    )


def _find_caution(values: list[str]) -> str:
    """Return what a rule that allows such commands leaves out, if the catalog calls it dangerous."""
    whys = [why for value in values if (why := explain_partial_allow(tuple(value.split())))]
    return f" ({whys[0]})" if whys else ""


def _list_prefixes(commands: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(" ".join(_get_command_prefix(words)) for words in commands))


def _deletes_anyway(prefix: str) -> bool:
    """Return whether a command may delete without any options, as `rm` does."""
    return read_line(prefix).effects["deletes"] is not Likelihood.NO


def _get_command_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    second = words[1] if len(words) > 1 else ""
    return words[:2] if second and not second.startswith("-") else words[:1]


def _build_command_condition(path: str, values: list[str]) -> dict[str, Any]:
    return {"path": path, "op": "cmd", "value": values[0] if len(values) == 1 else values}


def _list_names(values: list[str]) -> str:
    return " or ".join(f"“{value}”" for value in values[:4])


def _suggest_for_path(path: str, place: str, has_others: bool) -> Iterator[_RungParts]:
    if has_others:
        yield "path", f"the same path, {place}", [{"path": path, "op": "eq", "value": place}]
    folder = dirname(place)
    if folder and folder != "/" and ".." not in place.split("/"):
        yield "folder", f"anything below {folder}", [{"path": path, "op": "path_under", "value": folder}]


def _suggest_for_url(path: str, place: str, has_others: bool) -> Iterator[_RungParts]:
    if has_others:
        yield "url", "the same address", [{"path": path, "op": "eq", "value": place}]
    url = parse_url(place)
    if url is not None:
        yield "host", f"anything on {url.name}", [{"path": path, "op": "host_in", "value": url.name}]


def _holds_secret(value: Any) -> bool:
    """Return whether the argument holds a secret or a mask, which rules must not contain."""
    return bool(has_mask(value) or get_redactor().value(value) != value)


def _is_valid(suggestion: Suggestion) -> bool:
    try:
        documents.parse({"v": 1, "rules": [{"effect": "ask", "match": suggestion.match}]})
    except PolicyError:
        return False
    return True


# ---------------------------------------------------------------- how many they meet


def count_matches(suggestions: list[Suggestion], agent: str, like: ToolCall) -> CountedSuggestions:
    """Return the suggestions with the recent calls that they certainly match.

    Calls of the same tool come first. Their number, age (30 days) and the time are limited.
    """
    policy, examined_count, partial = _build_monitor_policy(suggestions), 0, False
    every: Counter[str] = Counter()
    by_agent: Counter[str] = Counter()
    by_run: Counter[str] = Counter()
    deadline = time.monotonic() + SECONDS
    for call in iterate_calls_of_tool_first(like, LOOKED_AT):
        if time.monotonic() > deadline:
            partial = True
            break
        examined_count += 1
        if call.question is None:
            continue
        would = {entry["rule"] for entry in decide(policy, call.question).would}
        rung_names = [
            suggestion.name
            for suggestion in suggestions
            if suggestion.name in would and _matches_prefix(suggestion, call.question.input)
        ]
        every.update(rung_names)
        if call.question.agent_path[-1:] == (agent,):
            by_agent.update(rung_names)
        if call.question.run == like.run.name:
            by_run.update(rung_names)
    counts = [replace(r, count=every[r.name], mine=by_agent[r.name], in_run=by_run[r.name]) for r in suggestions]
    return CountedSuggestions(counts, examined_count, partial)


def _build_monitor_policy(suggestions: list[Suggestion]) -> RuleSet:
    """Return a policy with each suggestion as an allow rule in monitor mode.

    Unknown counts as no match. Command prefixes are checked separately.
    """
    matches = [
        (
            suggestion.name,
            {key: value for key, value in suggestion.match.items() if not _is_command_suggestion(suggestion, key)},
        )
        for suggestion in suggestions
    ]
    rules = [{"id": name, "effect": "allow", "mode": "monitor", "match": match} for name, match in matches]
    return documents.parse({"v": 1, "default": "deny", "rules": rules})


def _is_command_suggestion(suggestion: Suggestion, key: str) -> bool:
    return key == "args" and suggestion.match["args"][0]["op"] == "cmd"


def _matches_prefix(suggestion: Suggestion, arguments: Any) -> bool:
    """Return whether every part of the command begins with the suggested words.

    An allow rule may cover fewer, a deny rule more. Of a suggestion with an effect, one part must match and have it.
    """
    if not _is_command_suggestion(suggestion, "args" if "args" in suggestion.match else ""):
        return True
    argument, *conditions = suggestion.match["args"]
    line = arguments.get(argument["path"][1:]) if isinstance(arguments, dict) else None
    prefixes = argument["value"] if isinstance(argument["value"], list) else [argument["value"]]
    parts = read_line(line).segments if isinstance(line, str) else ()
    matching = [part for part in parts if any(part.begins(parse_prefix(text)) for text in prefixes)]
    if conditions:
        return any(
            part.has_effect(condition["value"]) is Likelihood.YES for part in matching for condition in conditions
        )
    return bool(parts) and len(matching) == len(parts)
