"""OpenAI Agents SDK: gated tools, hooks that show, and answers to the SDK's own approvals.

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

from .framework_support.call_registry import (
    CallRegistry,
    deny_without_run,
    find_registry,
    format_denial,
    require_registry,
)
from .framework_support.tracked_call import TrackedCall
from .stream import Run, current

__all__ = ["Watch", "answered", "config", "gated", "streamed"]

MARK = "__toolcards_gated__"


def gated(tool: FunctionTool, run: Run | None = None, *, seconds: float | None = None) -> FunctionTool:
    """Return a copy of the tool that asks the gate first.

    `run`: default is the run of the surrounding `with` block.
    A denial is the tool's answer, so the model reads the reason; edited arguments are the ones it runs with.
    """
    invoke = tool.on_invoke_tool

    async def guarded(context: Any, text: str) -> Any:
        registry = find_registry(run or current())
        if registry is None:
            return format_denial(deny_without_run())
        args = _parse_arguments(text)
        if args is _NOT_JSON:
            return await _report_broken(registry.find_or_begin(context.tool_call_id, tool.name), invoke, context, text)
        call = registry.enter(context.tool_call_id, tool.name, args)
        decision = await call.ask(args, seconds=seconds)
        if not decision.allowed:
            return format_denial(decision)
        if decision.edited:
            text = json.dumps(decision.args)
            context = _with_arguments(context, text)
        return await _invoke(call, invoke, context, text)

    setattr(guarded, MARK, True)
    return dataclasses.replace(tool, on_invoke_tool=guarded)


async def _invoke(call: TrackedCall, invoke: Callable[..., Any], context: Any, text: str) -> Any:
    try:
        output = await invoke(context, text)
    except BaseException as error:
        call.failed(error)
        raise
    if _is_paused(context):  # an agent as a tool waits for an approval; then the SDK runs it again
        call.pause()
        return output
    call.output(output)  # unless the formatter of `config` reported an error
    return output


def _is_paused(context: Any) -> bool:
    """Return whether the call is an agent whose own calls wait for approvals."""
    with contextlib.suppress(Exception):  # the SDK keeps this to itself
        from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result

        scope = get_agent_tool_state_scope(context)
        return bool(peek_agent_tool_run_result(context.tool_call, scope_id=scope).interruptions)
    return False


async def _report_broken(call: TrackedCall, invoke: Any, context: Any, text: str) -> Any:
    """Report arguments that are not JSON, which the SDK itself refuses."""
    try:
        output = await invoke(context, text)
    except Exception as error:
        call.invalid(text, str(error))
        raise
    call.invalid(text, str(output))
    return output


def config(run: Run, base: RunConfig | None = None) -> RunConfig:
    """Return a run configuration that reports errors missing from the SDK's hooks.

    The SDK reports them nowhere else.
    Only for tools without their own `failure_error_function`. The message for the model does not change.
    """
    registry = require_registry(run)
    base = base or RunConfig()
    before = base.tool_error_formatter

    async def format_and_report(args: Any) -> str | None:
        with contextlib.suppress(Exception):
            _report_error(registry, args)
        result = before(args) if before is not None else None
        message: str | None = await result if inspect.isawaitable(result) else result
        return message

    return dataclasses.replace(base, tool_error_formatter=format_and_report)


def _report_error(registry: CallRegistry, args: Any) -> None:
    if args.kind == "tool_not_found":
        registry.invalid(args.call_id, args.tool_name, None, args.default_message, "no_such_tool")
        return
    call = registry.find(args.call_id, args.tool_name)
    if call is None:
        return
    if args.kind == "approval_rejected":
        call.denied(args.default_message)
    elif _is_invalid_input(args.error):
        call.error(str(args.error), code="invalid_input", retryable=False)
    elif args.error is not None:
        call.failed(args.error)


def _is_invalid_input(error: Any) -> bool:
    """Return whether the SDK found invalid arguments (its only error of this kind around a tool)."""
    return type(error).__name__ == "ModelBehaviorError"


class Watch(RunHooks[Any]):  # type: ignore[misc]  # unknown where the library is not installed
    """Shows the calls of a run: pass as `hooks=`. Its methods do not block or raise."""

    def __init__(self, run: Run) -> None:
        self._registry = require_registry(run)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Report the complete calls of the model's answer."""
        with contextlib.suppress(Exception):
            for item in response.output:
                if getattr(item, "type", "") == "function_call":
                    self._report_call(item)

    def _report_call(self, item: Any) -> None:
        args = _parse_arguments(item.arguments)
        if args is _NOT_JSON:
            self._registry.find_or_begin(item.call_id, item.name)
        else:
            self._registry.complete(item.call_id, item.name, args)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Report a tool's answer; a gated tool has reported it already."""
        call = self._registry.find(getattr(context, "tool_call_id", ""), getattr(tool, "name", ""))
        if call is not None and not _is_paused(context) and not hasattr(_get_invoker(tool), MARK):
            call.output(result)


async def streamed(result: Any, run: Run) -> AsyncIterator[Any]:
    """Yield a streamed result's events, and report text, arguments and outputs."""
    registry = require_registry(run)
    writing: dict[str, TrackedCall] = {}
    if run.finished:
        run.begin()
    try:
        async for event in result.stream_events():
            with contextlib.suppress(Exception):
                _report_event(registry, event, writing)
            yield event
    except asyncio.CancelledError:
        run.interrupted = True
        raise
    if _is_cancelled(result):
        run.finish("aborted", "The result was canceled.")


def _report_event(registry: CallRegistry, event: Any, writing: dict[str, TrackedCall]) -> None:
    if event.type == "raw_response_event":
        _report_raw_event(registry, event.data, writing)
    elif event.type == "run_item_stream_event" and event.name == "tool_output" and not registry.run.gate:
        raw = event.item.raw_item
        call = registry.find(str(raw.get("call_id") if isinstance(raw, dict) else raw.call_id))
        if call is not None:
            call.output(event.item.output)


def _is_cancelled(result: Any) -> bool:
    """Return whether `result.cancel()` ended the run; its events just stop."""
    with contextlib.suppress(Exception):
        is_cut: bool = getattr(result, "_cancel_mode", "") == "immediate"
        return is_cut and result.final_output is None and not result.interruptions
    return False


def _report_raw_event(registry: CallRegistry, data: Any, writing: dict[str, TrackedCall]) -> None:
    if data.type == "response.output_text.delta":
        registry.run.text(data.delta)
    elif data.type == "response.output_item.added" and data.item.type == "function_call":
        writing[data.item.id or data.item.call_id] = registry.match_announced(data.item.call_id, data.item.name)
    elif data.type == "response.function_call_arguments.delta" and data.item_id in writing:
        writing[data.item_id].delta(data.delta)


# ---------------------------------------------------------------- the SDK's own approvals


async def answered(result: Any, run: Run, *, seconds: float | None = None) -> Any:
    """Ask the gate about every approval that the run waits for.

    Return the state to continue with.
    The SDK accepts no edited arguments: a `gated` tool runs with them; for other tools the call is rejected with the
    edited arguments in the message, so that the model can call again.
    """
    registry = require_registry(run)
    state, items = result.to_state(), list(result.interruptions)
    calls = [registry.enter(item.call_id, item.name, _get_arguments(item)) for item in items]
    decisions = (
        call.ask(_get_arguments(item), seconds=seconds, take=False) for call, item in zip(calls, items, strict=True)
    )
    for call, item, decision in zip(calls, items, await asyncio.gather(*decisions), strict=True):
        if not decision.allowed:
            state.reject(item, rejection_message=decision.text or "This call was denied.")
        elif decision.edited and not _takes_edits(item):
            message = (
                f"A person changed the arguments. To continue, call the tool again with {json.dumps(decision.args)}"
            )
            call.denied(message)
            state.reject(item, rejection_message=message)
        else:
            state.approve(item)
    return state


def _get_arguments(item: Any) -> Any:
    args = _parse_arguments(item.arguments or "{}")
    return item.arguments if args is _NOT_JSON else args


def _takes_edits(item: Any) -> bool:
    agent = getattr(item, "agent", None)
    tools = agent.tools if isinstance(agent, Agent) else ()
    return any(getattr(tool, "name", "") == item.name and hasattr(_get_invoker(tool), MARK) for tool in tools)


def _get_invoker(tool: Any) -> Any:
    return getattr(tool, "on_invoke_tool", None)


# ---------------------------------------------------------------- conversions

_NOT_JSON = object()


def _parse_arguments(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return _NOT_JSON


def _with_arguments(context: Any, text: str) -> Any:
    """Return the context with the edited arguments, for tools that read them there."""
    with contextlib.suppress(Exception):
        changed_context = context.__class__.__new__(context.__class__)
        changed_context.__dict__.update(context.__dict__)
        changed_context.tool_arguments = text
        changed_context._function_tool_arguments = None  # cached from the old ones
        return changed_context
    return context
