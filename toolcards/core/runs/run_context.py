"""The context of a run: what new cards inherit, and how the run's own facts change it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from toolcards.client.common.tool_kinds import DANGER
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card

# Frames of unknown kinds and frames that could not be recorded, and their bounded count per run.
#
# Kinds are text of the agent: a run keeps the first `MAX_KINDS`, each cut to `MAX_KIND_LENGTH` characters. Frames of
# further kinds are only counted, as `other`.
MAX_KINDS = 50
MAX_KIND_LENGTH = 80
EMPTY = "(empty)"
FAULT = "not recorded"  # the kind of frames that a fault of the server cost
OVER_QUOTA = "over the quota"  # the kind of frames of a source that had sent as much as it may


@dataclass(frozen=True, slots=True)
class SkippedFrame:
    """One frame of a kind unknown to its adapter, or one that was not recorded (`FAULT`, `OVER_QUOTA`)."""

    kind: str


@dataclass(slots=True)
class SkippedFrames:
    """The number of skipped frames of a run, in total and by kind."""

    total: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def other(self) -> int:
        """Return the number of frames beyond the first `MAX_KINDS` kinds."""
        return self.total - sum(self.kinds.values())

    def count(self, kind: str) -> None:
        """Add one frame."""
        name = shorten(kind)
        self.total += 1
        if name in self.kinds or len(self.kinds) < MAX_KINDS:
            self.kinds[name] = self.kinds.get(name, 0) + 1

    def add(self, frames: SkippedFrames) -> None:
        """Add the frames of another run."""
        self.total += frames.total
        for name, number in frames.kinds.items():
            if name in self.kinds or len(self.kinds) < MAX_KINDS:
                self.kinds[name] = self.kinds.get(name, 0) + number

    def by_number(self) -> list[tuple[str, int]]:
        """Return kinds with their numbers, the most frequent first."""
        return sorted(self.kinds.items(), key=lambda entry: (-entry[1], entry[0]))

    def dump_kinds(self) -> str:
        """Return the kinds as JSON."""
        return json.dumps(self.kinds, separators=(",", ":"))


def shorten(kind: str) -> str:
    """Return a kind of limited length that is never empty."""
    return (kind if len(kind) <= MAX_KIND_LENGTH else kind[: MAX_KIND_LENGTH - 1] + "…") or EMPTY


def load(total: int, kinds: str) -> SkippedFrames:
    """Return the counts of a run; `kinds` is from `dump_kinds`."""
    return SkippedFrames(total, json.loads(kinds))


# What an agent may leave in the context, which is stored with each commit of its run.
_MAX_ENTRIES = 1000  # entries of a kind; the oldest lanes and scopes are dropped
_MAX_TOOLS = 10_000  # more tools than that are unknown
_MAX_PATH = 32  # agents above each other; of deeper ones, the first ones and the last one count


@dataclass
class RunContext:
    """The context of a run: plain JSON, stored with the run, changed by logged facts only."""

    agent: str = ""
    program: str = ""  # the agent program that the run began with; no later frame changes it
    root: str = ""  # the folder of its project, as it was first named; no later frame changes it
    calls: int = 0  # the last ordinal given
    scope: str = ""
    scopes: list[str] = field(default_factory=list)  # started and not ended
    step: int = 0
    last_step: int = 0  # the highest step so far
    message_id: str = ""
    message_first: int = 0  # the step before the message's first one
    continuing: bool = False  # a known message started again, perhaps as a replay
    replaying: bool = False  # the run started again under the same id
    ended: str = ""  # the outcome of the last end, "" while active
    away: bool = False  # ended because the agent disconnected, which may come back
    error: str = ""  # an error that has not ended the run
    lanes: dict[str, list[Any]] = field(default_factory=dict)  # lane -> [agent path, parent call]
    kinds: dict[str, str] = field(default_factory=dict)  # tool -> kind, as the run announced its tools
    held: dict[str, list[Any]] = field(default_factory=dict)  # approval source_id -> answer without a request
    dropped: list[str] = field(default_factory=list)  # call ids of reset steps
    aliases: dict[str, str] = field(default_factory=dict)  # id under which a call continues -> its own id
    chunked: dict[str, str] = field(default_factory=dict)  # lane -> the call that chunks without an id continue
    paused: list[str] = field(default_factory=list)  # chunked calls that wait for the rest of their input

    def get_lane(self, lane: str) -> tuple[list[str], str]:
        """Return the agent path of a lane and its parent call."""
        if lane in self.lanes:
            path, parent = self.lanes[lane]
            return path, parent
        own = [self.agent] if self.agent else []
        if lane == self.scope:  # the run itself, named by its wire
            return own, ""
        return [*own, lane] if lane else own, ""

    def enter(self, scope: str) -> None:
        """Make this scope the active one."""
        self.scope, self.ended, self.away = scope, "", False
        if scope not in self.scopes:
            self.scopes = [*self.scopes[1 - _MAX_ENTRIES :], scope]

    def copy(self) -> RunContext:
        """Return a copy that later facts do not change."""
        containers = {name: value for name, value in vars(self).items() if isinstance(value, (list, dict))}
        copies: dict[str, Any] = {name: value.copy() for name, value in containers.items()}
        return replace(self, **copies)

    def apply(self, fact: f.AnyFact) -> bool:
        """Apply a fact of the run; return whether it has a handler."""
        handler = _HANDLERS.get(type(fact))
        if handler is None:
            return False
        handler(self, fact)
        return True

    def add_alias(self, alias: str, call_id: str) -> None:
        """Record the id under which the wire continues a call."""
        if len(self.aliases) < _MAX_ENTRIES:
            self.aliases[alias] = call_id

    def continue_chunks(self, lane: str, call_id: str) -> None:
        """Record the call whose chunks follow; another one of the lane pauses."""
        before = self.chunked.get(lane, "")
        paused_calls = [call for call in (*self.paused, before) if call and call != call_id]
        self.paused = paused_calls[-_MAX_ENTRIES:]
        self.chunked[lane] = call_id

    def end_chunks(self, call_id: str) -> None:
        """Record that the input of a call has no more chunks."""
        self.chunked = {lane: call for lane, call in self.chunked.items() if call != call_id}
        self.paused = [call for call in self.paused if call != call_id]

    def drop(self, call_id: str) -> None:
        """Record a removed call, so that late facts cannot restart it."""
        if call_id not in self.dropped:
            self.dropped = [*self.dropped[1 - _MAX_ENTRIES :], call_id]


class CardLookup(Protocol):
    """The part of a run's state that the router reads."""

    context: RunContext
    cards: dict[int, Card]

    def find(self, call_id: str) -> Card | None:
        """Return the newest card of that call id."""

    def list_ordinals(self, call_id: str) -> list[int]:
        """Return the cards of that call id, oldest first."""

    def list_open_cards(self) -> list[Card]:
        """Return the cards that have not ended finally."""


def _start_run(context: RunContext, fact: f.RunStarted) -> None:
    context.error = ""
    context.agent = fact.agent or context.agent
    context.program = context.program or fact.program
    context.root = context.root or fact.root
    is_begun = bool(fact.scope) or (context.calls > 0 and not context.ended)
    context.replaying = is_begun and fact.scope == context.scope
    context.enter(fact.scope or context.scope)
    for tool in fact.tools:
        name = tool.get("name")
        if isinstance(name, str) and (name in context.kinds or len(context.kinds) < _MAX_TOOLS):
            context.kinds[name] = _find_kind(tool)


def _find_kind(tool: dict[str, Any]) -> str:
    """Return the more dangerous of the stated kind and the kind of MCP's hints.

    It never makes a call look less dangerous to policy.
    """
    stated_kind = tool.get("kind")
    kind = stated_kind if isinstance(stated_kind, str) else ""
    hints = tool.get("annotations")
    hinted_kind = _find_hinted_kind(hints) if isinstance(hints, dict) else ""
    return hinted_kind if DANGER.get(hinted_kind, -1) > DANGER.get(kind, -1) else kind


def _find_hinted_kind(hints: dict[str, Any]) -> str:
    if hints.get("readOnlyHint") is True:
        return "read"
    if hints.get("destructiveHint") is True:
        return "delete"
    return "edit" if hints.get("readOnlyHint") is False else ""


def _start_message(context: RunContext, fact: f.MessageStarted) -> None:
    context.error = ""
    if fact.message_id and fact.message_id == context.message_id:
        context.continuing, context.step = True, context.message_first
        return context.enter(context.scope)
    context.message_id = fact.message_id
    context.message_first = context.step = context.last_step
    return context.enter(fact.message_id or context.scope)


def _start_step(context: RunContext, fact: f.StepStarted) -> None:
    context.enter(context.scope)
    context.step = fact.step if fact.step is not None else context.step + 1
    context.last_step = max(context.last_step, context.step)
    context.continuing = False


def _start_lane(context: RunContext, fact: f.LaneStarted) -> None:
    has_parent = not fact.lane or fact.parent_lane != fact.lane  # else it is another agent of the run
    path = (context.get_lane(fact.parent_lane)[0] or ["main"]) if has_parent else []
    context.lanes[fact.lane] = [[*path[: _MAX_PATH - 1], fact.name or fact.lane], fact.parent_call]
    if len(context.lanes) > _MAX_ENTRIES:
        del context.lanes[next(iter(context.lanes))]


def _hold_answer(context: RunContext, fact: f.ApprovalAnswered) -> None:
    if len(context.held) < _MAX_ENTRIES:
        context.held[fact.source_id or f"call:{fact.call_id}"] = [fact.approved, fact.reason, fact.at]


def _end_run(context: RunContext, fact: f.RunEnded) -> None:
    if fact.lane:
        return
    scope = fact.scope or context.scope
    if scope in context.scopes:
        context.scopes.remove(scope)
    if scope == context.scope:
        context.ended, context.held, context.continuing = fact.outcome, {}, False
        context.away = fact.away


def _record_error(context: RunContext, fact: f.ErrorReported) -> None:
    context.error = fact.message or "error"


def _ignore(context: RunContext, fact: f.AnyFact) -> None:
    """Accept a fact that changes no context."""


_HANDLERS: dict[type, Any] = {
    f.RunStarted: _start_run,
    f.MessageStarted: _start_message,
    f.StepStarted: _start_step,
    f.StepFinished: _ignore,
    f.StepReset: _ignore,
    f.TextDelta: _ignore,
    f.LaneStarted: _start_lane,
    f.ApprovalAnswered: _hold_answer,
    f.ErrorReported: _record_error,
    f.RunEnded: _end_run,
}
