"""LangChain and LangGraph: a callback handler that shows a run live, and a middleware that gates tools.

    agent = create_agent(model, tools, middleware=[Gate()])
    with Toolcards().run(agent="scribe") as run:
        agent.invoke({"messages": […]}, config=watched(run))

Put our middleware first. Without a `with` block `Gate` opens a run for each thread with its first call, and ends it
after a minute without calls, so that a platform can import the graph. `resume(result, run)` answers an agent that
pauses with LangChain's own `HumanInTheLoopMiddleware`. Without a `Gate`, open the run with `gate=False`. Read from and
tested with langchain 1.4.7, langgraph 1.2.22, langchain-core 1.7.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from .common.tool_results import format_result
from .decisions.answers import Decision
from .framework_support.auto_runs import IDLE, AutoRuns
from .framework_support.call_registry import CallRegistry, format_denial, require_registry
from .framework_support.langchain_pauses import aresume, resume
from .framework_support.tracked_call import TrackedCall, current_call
from .gate_client import Toolcards
from .stream import Run, current
from .values.failures import is_cancellation
from .values.jsonable import to_jsonable

__all__ = ["Gate", "Watch", "aresume", "resume", "watched"]


def watched(run: Run, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a config for `invoke` or `stream` with our callbacks."""
    extended_config = dict(config or {})
    extended_config["callbacks"] = [*(extended_config.get("callbacks") or []), Watch(run)]
    return extended_config


class Gate(AgentMiddleware):  # type: ignore[misc]  # unknown where the library is not installed
    """Gates each tool call: in the given run, the run of the surrounding `with` block, or a run of its own.

    A denied call is answered with an error message for the model. `seconds`: how long a call waits for a person.
    Runs of its own, one for each thread, are of `agent` at `cards` (the environment's, unless given); they end after
    `idle` seconds without a call, by `close`, or with the process.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        seconds: float | None = None,
        cards: Toolcards | None = None,
        agent: str = "langchain",
        idle: float = IDLE,
    ) -> None:
        super().__init__()
        self._run, self._seconds = run, seconds
        self._runs = AutoRuns(cards, agent=agent, idle=idle)

    def close(self) -> None:
        """End the runs that were opened without a `with` block."""
        self._runs.close()

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask, run with the allowed arguments, report the result."""
        tool_call = request.tool_call
        registry = require_registry(self._run or current() or self._runs.run(_find_thread_id(request)))
        if request.tool is None:
            return _report_unknown_tool(registry, tool_call, handler(request))
        call = registry.enter(tool_call["id"], tool_call["name"], tool_call["args"])
        decision = call.ask_now(tool_call["args"], seconds=self._seconds)
        if not decision.allowed:
            return _format_tool_message(tool_call, decision)
        with _report_exceptions(call):
            return _report_answer(call, handler(_apply_edits(request, decision)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do the same in async code."""
        tool_call = request.tool_call
        registry = require_registry(self._run or current() or await self._runs.arun(_find_thread_id(request)))
        if request.tool is None:
            return _report_unknown_tool(registry, tool_call, await handler(request))
        call = registry.enter(tool_call["id"], tool_call["name"], tool_call["args"])
        decision = await call.ask(tool_call["args"], seconds=self._seconds)
        if not decision.allowed:
            return _format_tool_message(tool_call, decision)
        with _report_exceptions(call):
            return _report_answer(call, await handler(_apply_edits(request, decision)))


class Watch(BaseCallbackHandler):  # type: ignore[misc]  # unknown where the library is not installed
    """Shows model output and tool results. Its methods do not block or raise."""

    run_inline = True  # keeps tokens in order

    def __init__(self, run: Run) -> None:
        self._registry = require_registry(run)
        self._writing: dict[tuple[UUID, Any], TrackedCall] = {}  # (model run, index of the call) -> the call
        self._tools: dict[UUID, TrackedCall] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """Report a piece of text or of a call's arguments."""
        with contextlib.suppress(Exception):
            message = getattr(chunk, "message", None)
            for piece in getattr(message, "tool_call_chunks", None) or ():
                self._report_piece(run_id, piece)
            if isinstance(token, str) and token:
                self._registry.run.text(token)

    def _report_piece(self, run_id: UUID, piece: Any) -> None:
        place = (run_id, piece.get("index"))
        if piece.get("id") and piece.get("name"):
            self._writing[place] = self._registry.begin(piece["id"], piece["name"])
        call = self._writing.get(place)
        if call is not None:
            call.delta(piece.get("args") or "")

    def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
        """Report the complete calls of the model's answer."""
        with contextlib.suppress(Exception):
            for place in [place for place in self._writing if place[0] == run_id]:
                del self._writing[place]
            for generations in response.generations:
                for generation in generations:
                    self._report_calls(getattr(generation, "message", None))

    def _report_calls(self, message: Any) -> None:
        for call in getattr(message, "tool_calls", None) or ():
            self._registry.complete(call["id"], call["name"], call["args"])
        for call in getattr(message, "invalid_tool_calls", None) or ():
            words = call.get("error") or "The arguments are not valid JSON."
            self._registry.invalid(call["id"], call["name"] or "", call.get("args"), words)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **more: Any) -> None:
        """Record that a tool starts.

        Without a call id, no model called it.
        """
        name, tool = more.get("tool_call_id"), (serialized or {}).get("name", "")
        if isinstance(name, str):
            gated_call = current_call.get()  # set by `Gate`
            is_gated = gated_call is not None and (gated_call.name, gated_call.tool) == (name, tool)
            call = gated_call if is_gated else self._registry.find_pending(name, tool)
            if call is not None:
                call.is_running = True
                self._tools[run_id] = call

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        """Report a tool's answer."""
        call = self._tools.pop(run_id, None)
        with contextlib.suppress(Exception):
            if call is not None:
                _report_answer(call, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Report a tool's exception."""
        call = self._tools.pop(run_id, None)
        if call is not None and isinstance(error, GraphBubbleUp):
            call.pause()
        elif call is not None:
            call.failed(error)

    def on_chain_error(self, error: BaseException, *, parent_run_id: UUID | None = None, **more: Any) -> None:
        """Record a cancellation of the graph, before it becomes a timeout."""
        if parent_run_id is None and is_cancellation(error):
            self._registry.run.interrupted = True

    def on_chain_end(self, outputs: Any, **more: Any) -> None:
        """Report calls in a finished node's messages that reached no tool."""
        with contextlib.suppress(Exception):
            messages = outputs.get("messages", ()) if isinstance(outputs, dict) else outputs
            for message in messages if isinstance(messages, (list, tuple)) else ():
                if isinstance(message, ToolMessage) and message.status == "error":
                    self._report_not_run(message)

    def _report_not_run(self, message: ToolMessage) -> None:
        """Report the error of a call that did not run: invalid arguments, or a denial."""
        call = self._registry.find_pending(message.tool_call_id, message.name or "")
        if call is not None:
            call.error(_get_text(message), code="tool_reported")


# ---------------------------------------------------------------- conversions


def _find_thread_id(request: Any) -> str:
    """Return the thread id of a call, "" if LangGraph has none."""
    config = getattr(getattr(request, "runtime", None), "config", None) or {}
    return str((config.get("configurable") or {}).get("thread_id") or "")


def _apply_edits(request: Any, decision: Decision) -> Any:
    if not decision.edited:
        return request
    return request.override(tool_call={**request.tool_call, "args": decision.args})


def _format_tool_message(call: Any, decision: Decision) -> ToolMessage:
    return ToolMessage(content=format_denial(decision), name=call["name"], tool_call_id=call["id"], status="error")


def _report_unknown_tool(registry: CallRegistry, tool_call: Any, answer: Any) -> Any:
    registry.invalid(
        tool_call["id"], tool_call["name"], to_jsonable(tool_call["args"]), _get_text(answer), "no_such_tool"
    )
    return answer


def _report_answer(call: TrackedCall, answer: Any) -> Any:
    """Report a tool's answer; an error message is a failure."""
    message = _find_message(answer)
    if message is None:
        call.output(answer)
    elif message.status == "error":
        call.error(_get_text(message), code="tool_reported")
    else:
        call.output(message.content)
    return answer


def _find_message(answer: Any) -> ToolMessage | None:
    """Return the message that the model reads; a command may carry it."""
    update = answer.update if isinstance(answer, Command) else None
    messages = update.get("messages") if isinstance(update, dict) else [answer]
    tool_messages = [each for each in messages if isinstance(each, ToolMessage)] if isinstance(messages, list) else []
    return tool_messages[0] if len(tool_messages) == 1 else None


@contextlib.contextmanager
def _report_exceptions(call: TrackedCall) -> Any:
    token = current_call.set(call)
    try:
        yield
    except GraphBubbleUp:
        call.pause()  # not an error: the call continues later
        raise
    except BaseException as error:
        call.failed(error)
        raise
    finally:
        current_call.reset(token)


def _get_text(message: Any) -> str:
    content = getattr(message, "content", message)
    return format_result(to_jsonable(content))
