"""What speaks for a closer look at a call that waits: a level for sorting, and a few reasons in words. No score."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolcards.client.common import tool_kinds
from toolcards.core.calls.card import Card
from toolcards.core.policy.shell.script import read_line

LEVELS = ("high", "medium", "low")
MAX_REASONS = 3  # reasons on a card
MIN_DEEP_LEVEL = 3  # agents in a path
LONG_COMMAND = 400  # characters of a command
_COMMANDS = ("command", "cmd", "script")
_GONE_FOR_GOOD = [
    frozenset(words.split())
    for words in ("rm -r", "rm -rf", "rm -fr", "git push --force", "git push -f", "git reset --hard", "git clean")
]
_GONE_PROGRAMS = {"mkfs", "dd", "shred", "truncate", "dropdb"}
_NETWORK = {"curl", "wget", "ssh", "scp", "rsync", "nc", "ftp", "sftp", "telnet"}
_SENDS = {"send", "pay", "transfer", "charge", "refund", "order", "buy", "email", "publish", "deploy", "post"}
_SECRET = re.compile(
    r"(^|/)(\.env(\.|$)|\.ssh(/|$)|\.aws(/|$)|id_[a-z0-9]+$|credentials|secrets?(\.|/|$)|[^/]+\.pem$)", re.I
)
_OUTSIDE = re.compile(r"(^|/)\.\.(/|$)|^~|^/(etc|usr|var|bin|sbin|boot|root|dev|proc|sys)(/|$)")
_DROPS = re.compile(r"\b(drop|truncate)\s+(table|database|schema)\b", re.I)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, slots=True)
class Risk:
    """One of `LEVELS`, and why."""

    level: str
    reasons: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Where its group stands, 0 first."""
        return LEVELS.index(self.level)


def assess_risk(card: Card) -> Risk:
    """Return the risk: high where the rule that asks says so or the tool deletes, low where the rule says so."""
    severity = str(card.approval.terms.get("severity", "")) if card.approval else ""
    deletes = "delete" in (card.tool.kind, tool_kinds.find_kind(card.tool.name, card.tool.source))
    level = "high" if severity in ("high", "critical") or deletes else "low" if severity == "low" else "medium"
    return Risk(level, tuple(dict.fromkeys(_find_reasons(card, severity, deletes)))[:MAX_REASONS])


def _find_reasons(card: Card, severity: str, deletes: bool) -> Iterator[str]:
    if severity in ("high", "critical"):
        yield f"{severity} risk, says the rule that asks"
    if deletes:
        yield "deletes something"
    fields = card.input if isinstance(card.input, dict) else {}
    for name in _COMMANDS:
        if isinstance(fields.get(name), str):
            yield from _find_command_risks(fields[name])
    yield from _find_location_risks(fields)
    if _SENDS & {word.casefold() for word in _WORDS.findall(card.tool.name)}:
        yield "sends or pays"
    if card.tool.kind == "fetch":
        yield "reaches the network"
    if len(card.agent_path) >= MIN_DEEP_LEVEL:
        yield f"sub-agent at depth {len(card.agent_path)}"


def _find_command_risks(line: str) -> Iterator[str]:
    parts = read_line(line[: 4 * LONG_COMMAND]).segments
    words = [part.words for part in parts if part.words]
    if _DROPS.search(line) or any(map(_is_irreversible, words)):
        yield "cannot be undone"
    if any(words_of_part[0] in _NETWORK for words_of_part in words):
        yield "reaches the network"
    if any(_SECRET.search(word) for words_of_part in words for word in words_of_part):
        yield "touches secrets"
    if any(part.opaque for part in parts):
        yield "a command that cannot be read in full"
    if len(line) > LONG_COMMAND:
        yield "a long command"


def _is_irreversible(words: tuple[str, ...]) -> bool:
    return words[0] in _GONE_PROGRAMS or any(required <= set(words) for required in _GONE_FOR_GOOD)


def _find_location_risks(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if (
            not isinstance(value, str)
            or len(value) > LONG_COMMAND
            or not re.search(r"path|file|folder|dir|target", name)
        ):
            continue
        if _SECRET.search(value):
            yield "touches secrets"
        if _OUTSIDE.search(value):
            yield "leaves the project’s folder"
