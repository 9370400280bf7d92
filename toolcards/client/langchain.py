"""LangChain and LangGraph: a callback handler that shows a run live, and a middleware that asks before a tool runs.

    agent = create_agent(model, tools, middleware=[Gate()])
    with Toolcards().run(agent="scribe") as run:
        agent.invoke({"messages": […]}, config=watched(run))

`Gate` needs nothing but an open run; several middlewares compose, ours belongs first. An agent that pauses with
LangChain's own `HumanInTheLoopMiddleware` is answered by `resume(result, run)`. Without a `Gate`, open the run with
`gate=False`. Read from and tested with langchain 1.4.7, langgraph 1.2.22, langchain-core 1.7.2.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from .answers import Decision
from .faults import stopped
from .jsonable import jsonable
from .ledger import Ledger, closed, ledger_of, refusal
from .live import Run, current

__all__ = ["Gate", "Watch", "aresume", "resume", "watched"]


def watched(run: Run, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the config of `invoke`, `stream` and their like with our callbacks in it."""
    mine = dict(config or {})
    mine["callbacks"] = [*(mine.get("callbacks") or []), Watch(run)]
    return mine


class Gate(AgentMiddleware):  # type: ignore[misc]  # unknown where the library is not installed
    """Asks before each tool call, in the run given or in the one whose `with` block the agent runs in.

    A denied call is answered with an error message for the model. `seconds`: how long a call waits for a person.
    """

    def __init__(self, run: Run | None = None, *, seconds: float | None = None) -> None:
        super().__init__()
        self._run, self._seconds = run, seconds

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask, run with what was allowed, tell what came of it."""
        ledger = ledger_of(self._run or current())
        call = request.tool_call
        if request.tool is None:
            return _unknown(ledger, call, handler(request))
        if ledger is None:
            return _message(call, closed())
        decision = ledger.ask_now(call["id"], call["name"], call["args"], seconds=self._seconds)
        if not decision.allowed:
            return _message(call, decision)
        with _telling(ledger, call["id"]):
            return _told(ledger, call["id"], handler(_edited(request, decision)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same, awaiting."""
        ledger = ledger_of(self._run or current())
        call = request.tool_call
        if request.tool is None:
            return _unknown(ledger, call, await handler(request))
        if ledger is None:
            return _message(call, closed())
        decision = await ledger.ask(call["id"], call["name"], call["args"], seconds=self._seconds)
        if not decision.allowed:
            return _message(call, decision)
        with _telling(ledger, call["id"]):
            return _told(ledger, call["id"], await handler(_edited(request, decision)))


class Watch(BaseCallbackHandler):  # type: ignore[misc]  # unknown where the library is not installed
    """Shows what the model writes and what tools answer. Nothing in here waits or raises."""

    run_inline = True  # tokens in their order

    def __init__(self, run: Run) -> None:
        ledger = ledger_of(run)
        assert ledger is not None
        self._ledger = ledger
        self._writing: dict[tuple[UUID, Any], str] = {}  # (model run, index of the call) -> the call's id
        self._tools: dict[UUID, str] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """A piece of text, or of a call's arguments."""
        with contextlib.suppress(Exception):
            message = getattr(chunk, "message", None)
            for piece in getattr(message, "tool_call_chunks", None) or ():
                self._piece(run_id, piece)
            if isinstance(token, str) and token:
                self._ledger.run.text(token)

    def _piece(self, run_id: UUID, piece: Any) -> None:
        place = (run_id, piece.get("index"))
        if piece.get("id") and piece.get("name"):
            self._writing[place] = piece["id"]
            self._ledger.started(piece["id"], piece["name"])
        call = self._writing.get(place)
        if call:
            self._ledger.delta(call, piece.get("args") or "")

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
            self._ledger.started(call["id"], call["name"])
            self._ledger.written(call["id"], call["name"], call["args"])
        for call in getattr(message, "invalid_tool_calls", None) or ():
            words = call.get("error") or "The arguments are not valid JSON."
            self._ledger.invalid(call["id"], call["name"] or "", call.get("args"), words)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **more: Any) -> None:
        """A tool begins; without a call's id it was not a model that called it."""
        if isinstance(more.get("tool_call_id"), str):
            self._tools[run_id] = more["tool_call_id"]

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        """A tool answered."""
        with contextlib.suppress(Exception):
            _told(self._ledger, self._tools.pop(run_id, ""), output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """A tool raised."""
        if not isinstance(error, GraphBubbleUp):
            self._ledger.failed(self._tools.pop(run_id, ""), error)

    def on_chain_error(self, error: BaseException, *, parent_run_id: UUID | None = None, **more: Any) -> None:
        """The graph ends; one that was stopped is told apart here, where the interruption is not yet a time-out."""
        if parent_run_id is None and stopped(error):
            self._ledger.run.interrupted = True

    def on_chain_end(self, outputs: Any, **more: Any) -> None:
        """A node of the graph is done: its messages tell of calls that no tool ever saw."""
        with contextlib.suppress(Exception):
            found = outputs.get("messages", ()) if isinstance(outputs, dict) else outputs
            for message in found if isinstance(found, (list, tuple)) else ():
                if isinstance(message, ToolMessage) and message.status == "error":
                    self._unrun(message)

    def _unrun(self, message: ToolMessage) -> None:
        """An error message for a call that is still open: its arguments did not fit, or somebody said no."""
        call = message.tool_call_id
        if self._ledger.open(call):
            self._ledger.broke(call, _words(message), code="tool_reported", retryable=False)


# ---------------------------------------------------------------- LangChain's own pause


def resume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """Return the answer to a pause of `HumanInTheLoopMiddleware`, from the gate; None where nothing is paused.

    while (answer := resume(result, run)): result = agent.invoke(answer, config)
    """
    ledger = ledger_of(run)
    assert ledger is not None
    asked = _asked(result)
    said = [[ledger.ask_now(*call, seconds=seconds) for call in pause.calls] for pause in asked]
    return _command(ledger, asked, said)


async def aresume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """The same, awaiting; several calls are asked about at once."""
    ledger = ledger_of(run)
    assert ledger is not None
    asked = _asked(result)
    said = [await asyncio.gather(*(ledger.ask(*call, seconds=seconds) for call in pause.calls)) for pause in asked]
    return _command(ledger, asked, said)


class _Pause:
    """One interrupt: the calls it asks about, and how they are answered."""

    def __init__(self, interrupt: Any, messages: list[Any]) -> None:
        self.id, value = interrupt.id, interrupt.value
        self.single = value.get("type") == "tool_approval"
        wanted = [value] if self.single else value.get("action_requests", [])
        configs = value.get("review_configs", [])
        self.allowed = {config["action_name"]: config["allowed_decisions"] for config in configs}
        open_calls = [dict(call) for message in messages[-1:] for call in getattr(message, "tool_calls", None) or ()]
        self.calls = [(_id_of(each, open_calls), each["name"], each["args"]) for each in wanted]

    def decision(self, decision: Decision, name: str) -> dict[str, Any]:
        """The gate's answer in LangChain's words. An edit that is not allowed there is a rejection that says so."""
        kinds = self.allowed.get(name, ["approve", "edit", "reject"])
        if not decision.allowed:
            return {"type": "reject", "message": decision.text or "This call was denied."}
        if not decision.edited:
            return {"type": "approve"}
        if "edit" in kinds:
            return {"type": "edit", "edited_action": {"name": name, "args": decision.args}}
        return {"type": "reject", "message": f"A person changed the arguments: call again with {decision.args}"}


def _asked(result: Any) -> list[_Pause]:
    found = getattr(result, "interrupts", None) or (result.get("__interrupt__") if isinstance(result, dict) else None)
    state = getattr(result, "value", result)
    messages = state.get("messages", []) if isinstance(state, dict) else getattr(state, "messages", [])
    wanted = [each for each in found or () if isinstance(getattr(each, "value", None), dict)]
    return [_Pause(each, messages) for each in wanted if {"action_requests", "type"} & set(each.value)]


def _id_of(wanted: Any, open_calls: list[dict[str, Any]]) -> str:
    """The id of the call that is asked about; a batch names none, so name and arguments tell, in order."""
    if wanted.get("tool_call_id"):
        return str(wanted["tool_call_id"])
    for call in open_calls:
        if call["name"] == wanted["name"] and call["args"] == wanted["args"]:
            open_calls.remove(call)
            return str(call["id"])
    return ""


def _command(ledger: Ledger, asked: list[_Pause], said: list[list[Decision]]) -> Command[Any] | None:
    if not asked:
        return None
    answers: dict[str, Any] = {}
    for pause, decisions in zip(asked, said, strict=True):
        for call, _, _ in pause.calls:
            ledger.settled(call)
        told = [pause.decision(d, name) for d, (_, name, _) in zip(decisions, pause.calls, strict=True)]
        answers[pause.id] = told[0] if pause.single else {"decisions": told}
    return Command(resume=answers)


# ---------------------------------------------------------------- words between us and LangChain


def _edited(request: Any, decision: Decision) -> Any:
    if not decision.edited:
        return request
    return request.override(tool_call={**request.tool_call, "args": decision.args})


def _message(call: Any, decision: Decision) -> ToolMessage:
    return ToolMessage(content=refusal(decision), name=call["name"], tool_call_id=call["id"], status="error")


def _unknown(ledger: Ledger | None, call: Any, answer: Any) -> Any:
    if ledger is not None:
        ledger.invalid(call["id"], call["name"], jsonable(call["args"]), _words(answer), "no_such_tool")
    return answer


def _told(ledger: Ledger, call: str, answer: Any) -> Any:
    """Tell a tool's answer; an error message means that it did not work."""
    if isinstance(answer, ToolMessage) and answer.status == "error":
        ledger.broke(call, _words(answer), code="tool_reported", retryable=False)
    else:
        ledger.output(call, answer.content if isinstance(answer, ToolMessage) else answer)
    return answer


@contextlib.contextmanager
def _telling(ledger: Ledger, call: str) -> Any:
    try:
        yield
    except GraphBubbleUp:
        raise  # a pause, not an error: the call goes on later
    except BaseException as error:
        ledger.failed(call, error)
        raise


def _words(message: Any) -> str:
    content = getattr(message, "content", message)
    return content if isinstance(content, str) else str(content)
