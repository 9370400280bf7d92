"""OpenAI Agents SDK: tools that ask before they run, hooks that show, and answers to the SDK's own approvals.

    agent = Agent(name="scribe", tools=[gated(delete_file), gated(get_weather)])
    async with Toolcards().run(agent="scribe") as run:
        result = await Runner.run(agent, "…", hooks=Watch(run), run_config=config(run))

Streaming: `async for event in streamed(Runner.run_streamed(…), run)`. A tool with `needs_approval` pauses the run:
`while result.interruptions: result = await Runner.run(agent, await answered(result, run), …)`.
In a run with `gate=False` everything is only shown. Read from and tested with openai-agents 0.24.0.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Agent, FunctionTool, RunConfig, RunHooks

from .call_registry import CallRegistry, deny_without_run, find_registry, format_denial, require_registry
from .stream import Run, current
from .tracked_call import TrackedCall

__all__ = ["Watch", "answered", "config", "gated", "streamed"]

MARK = "__toolcards_gated__"


def gated(tool: FunctionTool, run: Run | None = None, *, seconds: float | None = None) -> FunctionTool:
    """Return a copy of the tool that asks first, in `run` or in the one whose `with` block the agent runs in.

    A denial is the tool's answer, so the model reads the reason; edited arguments are the ones it runs with.
    """
    invoke = tool.on_invoke_tool

    async def guarded(context: Any, given: str) -> Any:
        registry = find_registry(run or current())
        if registry is None:
            return format_denial(deny_without_run())
        args = _parsed(given)
        if args is _BROKEN:
            return await _broken(registry.find_or_begin(context.tool_call_id, tool.name), invoke, context, given)
        call = registry.enter(context.tool_call_id, tool.name, args)
        decision = await call.ask(args, seconds=seconds)
        if not decision.allowed:
            return format_denial(decision)
        if decision.edited:
            given = json.dumps(decision.args)
            context = _with_arguments(context, given)
        return await _invoked(call, invoke, context, given)

    setattr(guarded, MARK, True)
    return dataclasses.replace(tool, on_invoke_tool=guarded)


async def _invoked(call: TrackedCall, invoke: Callable[..., Any], context: Any, given: str) -> Any:
    try:
        output = await invoke(context, given)
    except BaseException as error:
        call.failed(error)
        raise
    call.output(output)  # unless `config`'s formatter has told an error
    return output


async def _broken(call: TrackedCall, invoke: Any, context: Any, given: str) -> Any:
    """Arguments that are no JSON: nobody can judge them, and the SDK itself refuses them."""
    try:
        output = await invoke(context, given)
    except Exception as error:
        call.invalid(given, str(error))
        raise
    call.invalid(given, str(output))
    return output


def config(run: Run, base: RunConfig | None = None) -> RunConfig:
    """Return the run's configuration with our ear in it: it hears errors that the SDK keeps from everybody else.

    Only where a tool has no `failure_error_function` of its own. What the model is told stays as it was.
    """
    registry = require_registry(run)
    base = base or RunConfig()
    before = base.tool_error_formatter

    async def heard(args: Any) -> str | None:
        with contextlib.suppress(Exception):
            _error(registry, args)
        said = before(args) if before is not None else None
        words: str | None = await said if inspect.isawaitable(said) else said
        return words

    return dataclasses.replace(base, tool_error_formatter=heard)


def _error(registry: CallRegistry, args: Any) -> None:
    if args.kind == "tool_not_found":
        registry.invalid(args.call_id, args.tool_name, None, args.default_message, "no_such_tool")
        return
    call = registry.find(args.call_id, args.tool_name)
    if call is None:
        return
    if args.kind == "approval_rejected":
        call.denied(args.default_message)
    elif _is_input(args.error):
        call.error(str(args.error), code="invalid_input", retryable=False)
    elif args.error is not None:
        call.failed(args.error)


def _is_input(error: Any) -> bool:
    """The SDK's word for arguments that do not fit; it raises nothing else of this kind around a tool."""
    return type(error).__name__ == "ModelBehaviorError"


class Watch(RunHooks[Any]):  # type: ignore[misc]  # unknown where the library is not installed
    """Shows the calls of a run: pass as `hooks=`. Nothing in here waits or raises."""

    def __init__(self, run: Run) -> None:
        self._registry = require_registry(run)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """The model has spoken: its calls are whole."""
        with contextlib.suppress(Exception):
            for item in response.output:
                if getattr(item, "type", "") == "function_call":
                    self._called(item)

    def _called(self, item: Any) -> None:
        args = _parsed(item.arguments)
        if args is _BROKEN:
            self._registry.find_or_begin(item.call_id, item.name)
        else:
            self._registry.complete(item.call_id, item.name, args)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """A tool answered; of a gated one that was told before."""
        call = self._registry.find(getattr(context, "tool_call_id", ""), getattr(tool, "name", ""))
        if call is not None and not hasattr(_invoker(tool), MARK):
            call.output(result)


async def streamed(result: Any, run: Run) -> AsyncIterator[Any]:
    """Pass a streamed result's events on, and show text, arguments as they are written, and outputs."""
    registry = require_registry(run)
    writing: dict[str, TrackedCall] = {}
    if run.finished:
        run.begin()
    try:
        async for event in result.stream_events():
            with contextlib.suppress(Exception):
                _event(registry, event, writing)
            yield event
    except asyncio.CancelledError:
        run.interrupted = True
        raise
    if _cancelled(result):
        run.finish("aborted", "The result was cancelled.")


def _event(registry: CallRegistry, event: Any, writing: dict[str, TrackedCall]) -> None:
    if event.type == "raw_response_event":
        _raw(registry, event.data, writing)
    elif event.type == "run_item_stream_event" and event.name == "tool_output" and not registry.run.gate:
        raw = event.item.raw_item
        call = registry.find(str(raw.get("call_id") if isinstance(raw, dict) else raw.call_id))
        if call is not None:
            call.output(event.item.output)


def _cancelled(result: Any) -> bool:
    """Whether `result.cancel()` cut the run off; its events just end."""
    with contextlib.suppress(Exception):
        cut: bool = getattr(result, "_cancel_mode", "") == "immediate"
        return cut and result.final_output is None and not result.interruptions
    return False


def _raw(registry: CallRegistry, data: Any, writing: dict[str, TrackedCall]) -> None:
    if data.type == "response.output_text.delta":
        registry.run.text(data.delta)
    elif data.type == "response.output_item.added" and data.item.type == "function_call":
        writing[data.item.id or data.item.call_id] = registry.match_announced(data.item.call_id, data.item.name)
    elif data.type == "response.function_call_arguments.delta" and data.item_id in writing:
        writing[data.item_id].delta(data.delta)


# ---------------------------------------------------------------- the SDK's own approvals


async def answered(result: Any, run: Run, *, seconds: float | None = None) -> Any:
    """Ask the gate about every approval the run has paused for; return the state to run on with.

    The SDK takes no edited arguments: a tool that is `gated` runs with them, for another one the call is refused
    with the arguments in words, so that the model can call again.
    """
    registry = require_registry(run)
    state, items = result.to_state(), list(result.interruptions)
    calls = [registry.enter(item.call_id, item.name, _arguments(item)) for item in items]
    asked = (call.ask(_arguments(item), seconds=seconds, take=False) for call, item in zip(calls, items, strict=True))
    for call, item, decision in zip(calls, items, await asyncio.gather(*asked), strict=True):
        if not decision.allowed:
            state.reject(item, rejection_message=decision.text or "This call was denied.")
        elif decision.edited and not _takes_edits(item):
            words = f"A person changed the arguments: call again with {json.dumps(decision.args)}"
            call.denied(words)
            state.reject(item, rejection_message=words)
        else:
            state.approve(item)
    return state


def _arguments(item: Any) -> Any:
    args = _parsed(item.arguments or "{}")
    return item.arguments if args is _BROKEN else args


def _takes_edits(item: Any) -> bool:
    agent = getattr(item, "agent", None)
    tools = agent.tools if isinstance(agent, Agent) else ()
    return any(getattr(tool, "name", "") == item.name and hasattr(_invoker(tool), MARK) for tool in tools)


def _invoker(tool: Any) -> Any:
    return getattr(tool, "on_invoke_tool", None)


# ---------------------------------------------------------------- words between us and the SDK

_BROKEN = object()


def _parsed(given: str) -> Any:
    try:
        return json.loads(given) if given else {}
    except ValueError:
        return _BROKEN


def _with_arguments(context: Any, given: str) -> Any:
    """The call's context with the edited arguments, for a tool that reads them there."""
    with contextlib.suppress(Exception):
        changed = context.__class__.__new__(context.__class__)
        changed.__dict__.update(context.__dict__)
        changed.tool_arguments = given
        changed._function_tool_arguments = None  # what was prepared from the old ones
        return changed
    return context
