"""Pydantic AI: a capability that shows an agent's run live and gates its tools.

    async with Toolcards().run(agent="scribe") as run:
        await agent.run("…", capabilities=[Gate(run)])

or once for all runs: `Agent(…, capabilities=[Gate(Toolcards(), agent="scribe")])`. Read from and tested with
pydantic-ai-slim 2.68. `cards.run(gate=False)` and `Watch` only show.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed
from pydantic_ai.exceptions import ToolRetryError as RetryError  # of a ModelRetry
from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturn,
)

from .common.tool_results import format_result
from .framework_support.call_registry import CallRegistry, find_registry
from .framework_support.tracked_call import TrackedCall, canonical_text
from .gate_client import Toolcards
from .stream import Run
from .values.failures import is_cancellation
from .values.jsonable import to_jsonable

__all__ = ["Gate", "Watch"]

_CONTROL = (ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed, RetryError)


class Gate(AbstractCapability[Any]):  # type: ignore[misc]  # unknown where the library is not installed
    """Gates each tool call, reports its result, and answers the approvals that tools require.

    `cards` is an open run, or a server: then each agent run is a run of its own, with `options` as in
    `Toolcards.run`. `seconds`: how long a call waits for a person. `approvals=False`: the app answers tools that
    require approval; the gate still decides on their calls before they execute. `stream=False`: model requests are not
    switched to streaming, so arguments are shown when they are complete.
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
        self._reported: Counter[tuple[str, str]] = Counter()  # ends that were reported before their event

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: a connection is no part of an agent's specification."""
        return None

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether the agent must stream."""
        return self._stream

    @property
    def has_on_event(self) -> bool:
        """Whether the agent must stream."""
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
        """Report the event; never fails the run."""
        report = _EVENTS.get(type(event))
        if report is not None and self._registry is not None:
            with contextlib.suppress(Exception):
                report(self, self._registry, event)

    def _report_start(self, registry: CallRegistry, event: PartStartEvent) -> None:
        part = event.part
        if isinstance(part, ToolCallPart):
            call = self._parts[event.index] = registry.begin(part.tool_call_id, part.tool_name)
            if isinstance(part.args, str):
                call.delta(part.args)
        elif isinstance(part, TextPart) and part.content:
            registry.run.text(part.content)

    def _report_delta(self, registry: CallRegistry, event: PartDeltaEvent) -> None:
        delta = event.delta
        if isinstance(delta, ToolCallPartDelta):
            call = self._parts.get(event.index)
            if call is not None and isinstance(delta.args_delta, str):
                call.delta(delta.args_delta)
        elif isinstance(delta, TextPartDelta) and delta.content_delta:
            registry.run.text(delta.content_delta)

    def _report_call(self, registry: CallRegistry, event: FunctionToolCallEvent) -> None:
        part = event.part
        if event.args_valid:
            registry.complete(part.tool_call_id, part.tool_name, _get_args(part))
        elif event.args_valid is False or registry.find(part.tool_call_id, part.tool_name) is None:
            registry.find_or_begin(part.tool_call_id, part.tool_name)

    def _report_result(self, registry: CallRegistry, event: FunctionToolResultEvent) -> None:
        part = event.part
        name, tool = part.tool_call_id, part.tool_name or ""
        if self._reported[name, tool]:
            self._reported[name, tool] -= 1
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
            call.error(_get_text(part), code="tool_reported")
        elif outcome == "retried":
            self._report_retry(call, part)

    def _report_retry(self, call: TrackedCall, part: Any) -> None:
        """Report that the model must retry: invalid arguments, unknown tool, or an error of the tool."""
        words = _get_text(part)
        cause = getattr(getattr(part, "retry", None), "cause", "")
        if cause == "model_retry" or (call.decision is not None and call.decision.allowed):
            call.error(words, code="tool_reported", retryable=True)
        else:
            code = "invalid_input" if part.tool_name in self._names else "no_such_tool"
            call.invalid(None, words, code)

    _names: frozenset[str] = frozenset()

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: Sequence[Any]) -> Any:
        """Store the offered tools and return them unchanged."""
        self._names = frozenset(tool.name for tool in tool_defs)
        return tool_defs

    # ------------------------------------------------------------ deciding

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: dict[str, Any], handler: Any
    ) -> Any:
        """Ask, execute with the allowed arguments, report the result."""
        if self._registry is None:
            return ToolDenied("Toolcards is not connected to this run, so the call did not run.")
        tracked_call = self._registry.enter(call.tool_call_id, call.tool_name, _get_args(call))
        decision = await tracked_call.ask(args, seconds=self._seconds)
        if not decision.allowed:
            self._reported[call.tool_call_id, call.tool_name] += 1
            return ToolDenied(decision.text or "This call was denied.")
        if decision.edited and canonical_text(decision.args) != canonical_text(_get_args(call)):
            args_or_denial = await self._validate_edit(ctx, tracked_call, replace(call, args=decision.args))
            if isinstance(args_or_denial, ToolDenied):
                return args_or_denial
            args = args_or_denial
        try:
            output = await handler(args)
        except CallDeferred:
            tracked_call.defer()
            raise
        except _CONTROL:
            raise  # reported by the following event
        except BaseException as error:
            tracked_call.failed(error)
            raise
        tracked_call.output(_read_output(output))
        self._reported[call.tool_call_id, call.tool_name] += 1
        return output

    async def _validate_edit(self, ctx: RunContext[Any], tracked_call: TrackedCall, changed_part: ToolCallPart) -> Any:
        """Return the validated edited arguments; a denial if the tool does not accept them."""
        try:
            assert ctx.tool_manager is not None
            new = await ctx.tool_manager.validate_tool_call(changed_part, approved=True, wrap_validation_errors=False)
            assert new.validated_args is not None
        except Exception as error:
            tracked_call.error(str(error), code="invalid_input", retryable=False)
            self._reported[changed_part.tool_call_id, changed_part.tool_name] += 1
            return ToolDenied("A person changed the arguments, but the tool does not accept them.")
        return new.validated_args

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answer the approvals that tools require.

        External calls are left to the app.
        """
        registry = self._registry
        if registry is None or not registry.run.gate or not self._approvals or not requests.approvals:
            return None
        calls = [registry.enter(part.tool_call_id, part.tool_name, _get_args(part)) for part in requests.approvals]
        pairs = zip(calls, requests.approvals, strict=True)
        answers = await asyncio.gather(*(self._answer_approval(call, part) for call, part in pairs))
        names = [part.tool_call_id for part in requests.approvals]
        return DeferredToolResults(approvals=_merge_answers(names, answers))

    async def _answer_approval(self, call: TrackedCall, part: ToolCallPart) -> Any:
        decision = await call.ask(_get_args(part), seconds=self._seconds, take=False)
        if not decision.allowed:
            self._reported[part.tool_call_id, part.tool_name] += 1
            return ToolDenied(decision.text or "This call was denied.")
        return ToolApproved(override_args=decision.args) if decision.edited else ToolApproved()


class Watch(Gate):
    """Only shows: no call waits, no call is denied."""

    gate = False


def _merge_answers(names: list[str], answers: list[Any]) -> dict[str, Any]:
    """Return one answer per id; if two calls share an id, a denial is for both."""
    by_name: dict[str, Any] = {}
    for name, answer in zip(names, answers, strict=True):
        if name not in by_name or isinstance(answer, ToolDenied):
            by_name[name] = answer
    return by_name


def _read_output(output: Any) -> Any:
    """Return the result, of a `ToolReturn` with its further content."""
    if not isinstance(output, ToolReturn) or not output.content:
        return _read_content(getattr(output, "return_value", output))
    content = [output.content] if isinstance(output.content, str) else output.content
    return _read_content([output.return_value, *content])


def _read_content(value: Any) -> Any:
    """Return files as base64, which can be shown."""
    if isinstance(value, list | tuple):
        return [_read_content(item) for item in value]
    if isinstance(value, BinaryContent):
        data = base64.b64encode(value.data).decode()
        return {"type": value.media_type.partition("/")[0], "media_type": value.media_type, "data": data}
    return value


def _get_args(part: ToolCallPart) -> Any:
    try:
        return part.args_as_dict()
    except Exception:
        return part.args


def _get_text(part: Any) -> str:
    """Return the content for the model, without the library's framing."""
    content = getattr(part, "content", "")
    return format_result(to_jsonable(content))


_EVENTS: dict[type, Any] = {
    PartStartEvent: Gate._report_start,
    PartDeltaEvent: Gate._report_delta,
    FunctionToolCallEvent: Gate._report_call,
    FunctionToolResultEvent: Gate._report_result,
}
