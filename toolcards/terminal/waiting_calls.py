"""A waiting call as lines of a terminal. Agents' text is never sent as it is: controls are shown as `U+001B`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolcards.client.common.invisible_characters import replace_invisible

__all__ = ["WaitingCall", "draw", "draw_line"]

BOLD, DIM, RED, RESET = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"
COMMANDS = ("command", "cmd", "script", "code", "query", "sql")  # members of an input that are shown as they are
LONGEST_SUMMARY = 100  # characters


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """One waiting call. `ballot` says what was shown, so that an answer counts for nothing else."""

    id: str
    tool: str
    summary: str
    agent: str
    value: Any
    reason: str
    risk: str
    hints: tuple[str, ...]
    asks: tuple[dict[str, Any], ...]
    age: float
    ballot: dict[str, Any]
    entry: dict[str, Any]

    @classmethod
    def parse(cls, entry: dict[str, Any]) -> WaitingCall:
        """Return the question of an entry of `/api/v1/approvals`."""
        call, risk = entry["call"], entry.get("risk") or {}
        approval, decision = call.get("approval") or {}, call.get("decision") or {}
        source = call["tool"].get("source")
        new_value = approval.get("edited")
        began = datetime.fromisoformat(entry["requested_at"]).timestamp() if entry.get("requested_at") else time.time()
        return cls(
            id=entry["id"],
            tool=f"{source} › {call['tool']['name']}" if source else call["tool"]["name"],
            summary=entry.get("summary") or "",
            agent=" › ".join(call.get("agent_path") or []) or entry.get("source") or "",
            value=call.get("input") if new_value is None else new_value,
            reason=decision.get("reason") or approval.get("reason") or "",
            risk=risk.get("level") or "medium",
            hints=tuple(risk.get("reasons") or ()),
            asks=tuple(entry.get("questions") or ()),
            age=max(0.0, time.time() - began),
            ballot={
                "rev": call["rev"],
                "args_sha256": approval.get("args_sha256") or "",
                "view_sha256": approval.get("view_sha256") or "",
            },
            entry=entry,
        )


def draw_line(question: WaitingCall, *, color: bool = False) -> str:
    """Return the call in one line, as a sentence."""
    style = _Colors(color)
    risk = style.red(question.risk) if question.risk == "high" else question.risk
    summary = _clean(" ".join(question.summary.split()))
    if len(summary) > LONGEST_SUMMARY:
        summary = summary[: LONGEST_SUMMARY - 1] + "…"
    head = f"{question.id}  {_format_age(question.age)}  {risk}  {_clean(question.agent)}  "
    return f"{head}{style.bold(summary)}  {style.dim(_clean(question.tool))}"


def draw(question: WaitingCall, *, color: bool = False) -> Iterator[str]:
    """Yield the lines of the whole question."""
    style = _Colors(color)
    risk = style.red("high risk") if question.risk == "high" else f"{question.risk} risk"
    yield style.bold(_clean(" ".join(question.summary.split())))
    yield f"{_clean(question.tool)} · {_clean(question.agent)} · {risk} · {_format_age(question.age)}"
    for text in (question.reason, *question.hints):
        if text:
            yield style.dim(f"  {_clean(' '.join(text.split()))}")
    yield from (f"  {line}" for line in _draw_input(question.value))
    for number, query in enumerate(question.asks):
        yield from _draw_query(number, query)


def _draw_input(value: Any) -> Iterator[str]:
    """Yield the input: commands line by line, all else as JSON, each line of a text on its own."""
    if not isinstance(value, dict):
        yield from _clean_lines(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        return
    for name, part in value.items():
        is_command = name in COMMANDS and isinstance(part, str)
        if is_command:
            yield from (f"{'$' if number == 0 else ' '} {line}" for number, line in enumerate(_clean_lines(part)))
        elif isinstance(part, str) and "\n" in part:
            yield f"{_clean(name)}:"
            yield from (f"  {line}" for line in _clean_lines(part))
        else:
            text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, indent=2)
            first, *more_lines = _clean_lines(text) or [""]
            yield f"{_clean(name)}: {first}"
            yield from (f"  {line}" for line in more_lines)


def _draw_query(number: int, query: dict[str, Any]) -> Iterator[str]:
    """Yield a question of the agent with its options, by the numbers that `answer` takes."""
    several = " (several)" if query.get("multiple") else ""
    yield f"  {number + 1}. {_clean(' '.join(str(query.get('text') or query.get('header')).split()))}{several}"
    for place, label in enumerate(query.get("options") or []):
        yield f"     [{place + 1}] {_clean(' '.join(str(label).split()))}"


def _clean_lines(text: str) -> list[str]:
    return [_clean(line) for line in text.replace("\r\n", "\n").split("\n")]


def _clean(text: str) -> str:
    """Return the text without characters that a terminal acts on or does not show."""
    return replace_invisible(text.replace("\t", "    ").replace("\n", " "))


def _format_age(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} min" if seconds < 5_400 else f"{round(seconds / 3600)} h"


class _Colors:
    """Colors, where the terminal has them."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{RESET}" if self._color else text

    def dim(self, text: str) -> str:
        return f"{DIM}{text}{RESET}" if self._color else text

    def red(self, text: str) -> str:
        return f"{RED}{text}{RESET}" if self._color else text
