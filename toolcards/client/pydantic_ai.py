"""Pydantic AI: a capability that shows an agent's run live and lets the gate decide before a tool executes.

    async with Toolcards().run(agent="scribe") as run:
        await agent.run("…", capabilities=[Gate(run)])

or once for all runs: `Agent(…, capabilities=[Gate(Toolcards(), agent="scribe")])`. Read from and tested with
pydantic-ai-slim 2.68. What decides is the run: `cards.run(gate=False)` and `Watch` only show.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from .call_registry import CallRegistry, find_registry
from .failures import is_cancellation
from .gate_client import Toolcards
from .stream import Run
from .tracked_call import TrackedCall, canonical_text

__all__ = ["Gate", "Watch"]

_CONTROL = (ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed)


class Gate(AbstractCapability[Any]):  # type: ignore[misc]  # unknown where the library is not installed
    """Asks before each tool call, tells what came of it, and answers the approvals that tools require.

    `cards` is a run that is open, or a server: then each agent run is a run of its own, with `options` as in
    `Toolcards.run`. `seconds`: how long a call waits for a person. `approvals=False`: tools that require approval
    are left to the app; their calls are still asked about before they execute. `stream=False`: model requests are
    not switched to streaming, so arguments are shown when they are whole.
    """

    gate = True

    def __init__(
        self,
        cards: Toolcards | Run,
        *,
        seconds: float | None = None,
        approvals: bool = True,
        stream: bool = True,
        **options: Any,
    ) -> None:
        self._cards, self._seconds, self._approvals, self._stream, self._options = (
            cards, seconds, approvals, stream, options,
        )  # fmt: skip
        self._registry: CallRegistry | None = find_registry(cards) if isinstance(cards, Run) else None
        self._parts: dict[int, TrackedCall] = {}
        self._told: Counter[tuple[str, str]] = Counter()  # ends that were told before their event comes

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: a connection is no part of an agent's specification."""
        return None

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether the agent has to stream for us."""
        return self._stream

    @property
    def has_on_event(self) -> bool:
        """Whether the agent has to stream for us."""
        return self._stream

    async def for_run(self, ctx: RunContext[Any]) -> Gate:
        """Return a copy with this agent run's own state."""
        return type(self)(
            self._cards, seconds=self._seconds, approvals=self._approvals, stream=self._stream, **self._options
        )

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Open a run around the agent's, unless one was given."""
        if isinstance(self._cards, Run):
            try:
                return await handler()
            except BaseException as error:
                self._cards.interrupted |= is_cancellation(error)
                raise
        name = getattr(ctx.agent, "name", None) or "pydantic-ai"
        async with self._cards.run(**{"agent": name, "gate": self.gate, **self._options}) as run:
            self._registry = find_registry(run)
            return await handler()

    # ------------------------------------------------------------ watching

    async def on_event(self, ctx: RunContext[Any], *, event: Any) -> None:
        """Tell the event; never fails the run."""
        tell = _EVENTS.get(type(event))
        if tell is not None and self._registry is not None:
            with contextlib.suppress(Exception):
                tell(self, self._registry, event)

    def _began(self, registry: CallRegistry, event: PartStartEvent) -> None:
        part = event.part
        if isinstance(part, ToolCallPart):
            call = self._parts[event.index] = registry.begin(part.tool_call_id, part.tool_name)
            if isinstance(part.args, str):
                call.delta(part.args)
        elif isinstance(part, TextPart) and part.content:
            registry.run.text(part.content)

    def _grew(self, registry: CallRegistry, event: PartDeltaEvent) -> None:
        delta = event.delta
        if isinstance(delta, ToolCallPartDelta):
            call = self._parts.get(event.index)
            if call is not None and isinstance(delta.args_delta, str):
                call.delta(delta.args_delta)
        elif isinstance(delta, TextPartDelta) and delta.content_delta:
            registry.run.text(delta.content_delta)

    def _called(self, registry: CallRegistry, event: FunctionToolCallEvent) -> None:
        part = event.part
        if event.args_valid:
            registry.complete(part.tool_call_id, part.tool_name, _args(part))
        else:
            registry.find_or_begin(part.tool_call_id, part.tool_name)

    def _returned(self, registry: CallRegistry, event: FunctionToolResultEvent) -> None:
        part = event.part
        name, tool = part.tool_call_id, part.tool_name or ""
        if self._told[name, tool]:
            self._told[name, tool] -= 1
            return
        call, content = registry.find(name, tool), getattr(part, "content", None)
        outcome = getattr(part, "outcome", "retried")
        if call is None:
            return
        if outcome == "success":
            call.output(content)
        elif outcome == "denied":
            call.denied(str(content or ""))
        elif outcome == "failed":
            call.error(_words(part), code="tool_reported", retryable=False)
        elif outcome == "retried":
            self._retried(call, part)

    def _retried(self, call: TrackedCall, part: Any) -> None:
        """The model is asked to try again: because of its arguments, the tool's name, or the tool itself."""
        words = _words(part)
        if call.decision is not None and call.decision.allowed:
            call.error(words, code="tool_reported", retryable=False)
        else:
            code = "invalid_input" if part.tool_name in self._names else "no_such_tool"
            call.invalid(None, words, code)

    _names: frozenset[str] = frozenset()

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: Sequence[Any]) -> Any:
        """Remember the tools that are offered; changes nothing."""
        self._names = frozenset(tool.name for tool in tool_defs)
        return tool_defs

    # ------------------------------------------------------------ deciding

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: dict[str, Any], handler: Any
    ) -> Any:
        """Ask, execute with what was allowed, tell what came of it."""
        if self._registry is None:
            return ToolDenied("Toolcards is not connected to this run, so the call may not run.")
        tracked = self._registry.enter(call.tool_call_id, call.tool_name, _args(call))
        decision = await tracked.ask(args, seconds=self._seconds)
        if not decision.allowed:
            self._told[call.tool_call_id, call.tool_name] += 1
            return ToolDenied(decision.text or "This call was denied.")
        if decision.edited and canonical_text(decision.args) != canonical_text(_args(call)):
            args_or_no = await self._edited(ctx, tracked, replace(call, args=decision.args))
            if isinstance(args_or_no, ToolDenied):
                return args_or_no
            args = args_or_no
        try:
            output = await handler(args)
        except _CONTROL:
            raise  # told by the event that follows
        except BaseException as error:
            tracked.failed(error)
            raise
        tracked.output(getattr(output, "return_value", output))
        self._told[call.tool_call_id, call.tool_name] += 1
        return output

    async def _edited(self, ctx: RunContext[Any], tracked: TrackedCall, changed: ToolCallPart) -> Any:
        """The edited arguments as the tool takes them; a denial where it does not."""
        try:
            assert ctx.tool_manager is not None
            new = await ctx.tool_manager.validate_tool_call(changed, approved=True, wrap_validation_errors=False)
            assert new.validated_args is not None
        except Exception as error:
            tracked.error(str(error), code="invalid_input", retryable=False)
            self._told[changed.tool_call_id, changed.tool_name] += 1
            return ToolDenied("A person changed the arguments, and the tool does not take them.")
        return new.validated_args

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answer the approvals that tools require; what runs elsewhere is the app's affair."""
        registry = self._registry
        if registry is None or not registry.run.gate or not self._approvals or not requests.approvals:
            return None
        calls = [registry.enter(part.tool_call_id, part.tool_name, _args(part)) for part in requests.approvals]
        asked = zip(calls, requests.approvals, strict=True)
        answers = await asyncio.gather(*(self._approval(call, part) for call, part in asked))
        named = [part.tool_call_id for part in requests.approvals]
        return DeferredToolResults(approvals=_one_for_each(named, answers))

    async def _approval(self, call: TrackedCall, part: ToolCallPart) -> Any:
        decision = await call.ask(_args(part), seconds=self._seconds, take=False)
        if not decision.allowed:
            self._told[part.tool_call_id, part.tool_name] += 1
            return ToolDenied(decision.text or "This call was denied.")
        return ToolApproved(override_args=decision.args) if decision.edited else ToolApproved()


class Watch(Gate):
    """Only shows: nothing waits, nothing is denied."""

    gate = False


def _one_for_each(names: list[str], answers: list[Any]) -> dict[str, Any]:
    """Return the answers by id. Pydantic AI has one answer for an id: where two calls share it, a deny is for both."""
    told: dict[str, Any] = {}
    for name, answer in zip(names, answers, strict=True):
        if name not in told or isinstance(answer, ToolDenied):
            told[name] = answer
    return told


def _args(part: ToolCallPart) -> Any:
    try:
        return part.args_as_dict()
    except Exception:
        return part.args


def _words(part: Any) -> str:
    """What the model is told, without the library's framing."""
    content = getattr(part, "content", "")
    return content if isinstance(content, str) else str(content)


_EVENTS: dict[type, Any] = {
    PartStartEvent: Gate._began,
    PartDeltaEvent: Gate._grew,
    FunctionToolCallEvent: Gate._called,
    FunctionToolResultEvent: Gate._returned,
}
