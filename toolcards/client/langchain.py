"""LangChain and LangGraph: a callback handler that shows a run live, and a middleware that asks before a tool runs.

    agent = create_agent(model, tools, middleware=[Gate()])
    with Toolcards().run(agent="scribe") as run:
        agent.invoke({"messages": […]}, config=watched(run))

Several middlewares compose, ours belongs first. Without a `with` block `Gate` opens a run for each thread with its
first call, and ends it after a minute without one, so that a graph may be imported by a platform. An agent that pauses
with LangChain's own `HumanInTheLoopMiddleware` is answered by `resume(result, run)`. Without a `Gate`, open the run
with `gate=False`. Read from and tested with langchain 1.4.7, langgraph 1.2.22, langchain-core 1.7.2.
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

from .answers import Decision
from .auto_runs import IDLE, AutoRuns
from .call_registry import CallRegistry, format_denial, require_registry
from .failures import is_cancellation
from .gate_client import Toolcards
from .jsonable import to_jsonable
from .langchain_pauses import aresume, resume
from .stream import Run, current
from .tracked_call import TrackedCall, current_call

__all__ = ["Gate", "Watch", "aresume", "resume", "watched"]


def watched(run: Run, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the config of `invoke`, `stream` and their like with our callbacks in it."""
    mine = dict(config or {})
    mine["callbacks"] = [*(mine.get("callbacks") or []), Watch(run)]
    return mine


class Gate(AgentMiddleware):  # type: ignore[misc]  # unknown where the library is not installed
    """Asks before each tool call: in the run given, in the one whose `with` block the agent runs in, or in its own.

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
        """Ask, run with what was allowed, tell what came of it."""
        wanted = request.tool_call
        registry = require_registry(self._run or current() or self._runs.run(_thread(request)))
        if request.tool is None:
            return _unknown(registry, wanted, handler(request))
        call = registry.enter(wanted["id"], wanted["name"], wanted["args"])
        decision = call.ask_now(wanted["args"], seconds=self._seconds)
        if not decision.allowed:
            return _message(wanted, decision)
        with _telling(call):
            return _told(call, handler(_edited(request, decision)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same, awaiting."""
        wanted = request.tool_call
        registry = require_registry(self._run or current() or await self._runs.arun(_thread(request)))
        if request.tool is None:
            return _unknown(registry, wanted, await handler(request))
        call = registry.enter(wanted["id"], wanted["name"], wanted["args"])
        decision = await call.ask(wanted["args"], seconds=self._seconds)
        if not decision.allowed:
            return _message(wanted, decision)
        with _telling(call):
            return _told(call, await handler(_edited(request, decision)))


class Watch(BaseCallbackHandler):  # type: ignore[misc]  # unknown where the library is not installed
    """Shows what the model writes and what tools answer. Nothing in here waits or raises."""

    run_inline = True  # tokens in their order

    def __init__(self, run: Run) -> None:
        self._registry = require_registry(run)
        self._writing: dict[tuple[UUID, Any], TrackedCall] = {}  # (model run, index of the call) -> the call
        self._tools: dict[UUID, TrackedCall] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """A piece of text, or of a call's arguments."""
        with contextlib.suppress(Exception):
            message = getattr(chunk, "message", None)
            for piece in getattr(message, "tool_call_chunks", None) or ():
                self._piece(run_id, piece)
            if isinstance(token, str) and token:
                self._registry.run.text(token)

    def _piece(self, run_id: UUID, piece: Any) -> None:
        place = (run_id, piece.get("index"))
        if piece.get("id") and piece.get("name"):
            self._writing[place] = self._registry.begin(piece["id"], piece["name"])
        call = self._writing.get(place)
        if call is not None:
            call.delta(piece.get("args") or "")

    def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
        """The model has spoken: its calls are whole."""
        with contextlib.suppress(Exception):
            for place in [place for place in self._writing if place[0] == run_id]:
                del self._writing[place]
            for generations in response.generations:
                for generation in generations:
                    self._calls(getattr(generation, "message", None))

    def _calls(self, message: Any) -> None:
        for call in getattr(message, "tool_calls", None) or ():
            self._registry.complete(call["id"], call["name"], call["args"])
        for call in getattr(message, "invalid_tool_calls", None) or ():
            words = call.get("error") or "The arguments are not valid JSON."
            self._registry.invalid(call["id"], call["name"] or "", call.get("args"), words)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **more: Any) -> None:
        """A tool begins; without a call's id it was not a model that called it."""
        name, tool = more.get("tool_call_id"), (serialized or {}).get("name", "")
        if isinstance(name, str):
            gated = current_call.get()  # what `Gate` lets run here
            ours = gated is not None and (gated.name, gated.tool) == (name, tool)
            call = gated if ours else self._registry.find_pending(name, tool)
            if call is not None:
                call.is_running = True
                self._tools[run_id] = call

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        """A tool answered."""
        call = self._tools.pop(run_id, None)
        with contextlib.suppress(Exception):
            if call is not None:
                _told(call, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """A tool raised."""
        call = self._tools.pop(run_id, None)
        if call is not None and isinstance(error, GraphBubbleUp):
            call.pause()
        elif call is not None:
            call.failed(error)

    def on_chain_error(self, error: BaseException, *, parent_run_id: UUID | None = None, **more: Any) -> None:
        """The graph ends; one that was stopped is told apart here, where the interruption is not yet a time-out."""
        if parent_run_id is None and is_cancellation(error):
            self._registry.run.interrupted = True

    def on_chain_end(self, outputs: Any, **more: Any) -> None:
        """A node of the graph is done: its messages tell of calls that no tool ever saw."""
        with contextlib.suppress(Exception):
            found = outputs.get("messages", ()) if isinstance(outputs, dict) else outputs
            for message in found if isinstance(found, (list, tuple)) else ():
                if isinstance(message, ToolMessage) and message.status == "error":
                    self._unrun(message)

    def _unrun(self, message: ToolMessage) -> None:
        """An error message for a call that nobody ran: its arguments did not fit, or somebody said no."""
        call = self._registry.find_pending(message.tool_call_id, message.name or "")
        if call is not None:
            call.error(_words(message), code="tool_reported", retryable=False)


# ---------------------------------------------------------------- words between us and LangChain


def _thread(request: Any) -> str:
    """The conversation that a call belongs to, "" where LangGraph keeps none."""
    config = getattr(getattr(request, "runtime", None), "config", None) or {}
    return str((config.get("configurable") or {}).get("thread_id") or "")


def _edited(request: Any, decision: Decision) -> Any:
    if not decision.edited:
        return request
    return request.override(tool_call={**request.tool_call, "args": decision.args})


def _message(call: Any, decision: Decision) -> ToolMessage:
    return ToolMessage(content=format_denial(decision), name=call["name"], tool_call_id=call["id"], status="error")


def _unknown(registry: CallRegistry, wanted: Any, answer: Any) -> Any:
    registry.invalid(wanted["id"], wanted["name"], to_jsonable(wanted["args"]), _words(answer), "no_such_tool")
    return answer


def _told(call: TrackedCall, answer: Any) -> Any:
    """Tell a tool's answer; an error message means that it did not work."""
    if isinstance(answer, ToolMessage) and answer.status == "error":
        call.error(_words(answer), code="tool_reported", retryable=False)
    else:
        call.output(answer.content if isinstance(answer, ToolMessage) else answer)
    return answer


@contextlib.contextmanager
def _telling(call: TrackedCall) -> Any:
    token = current_call.set(call)
    try:
        yield
    except GraphBubbleUp:
        call.pause()  # no error: the call goes on later
        raise
    except BaseException as error:
        call.failed(error)
        raise
    finally:
        current_call.reset(token)


def _words(message: Any) -> str:
    content = getattr(message, "content", message)
    return content if isinstance(content, str) else str(content)
