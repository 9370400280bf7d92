"""A real LangChain agent with a scripted model, connected through `toolcards.client.langchain`."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import common
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from toolcards.client import Toolcards
from toolcards.client.langchain import Gate, aresume, resume, watched

INNER = {"configurable": {"thread_id": "inner"}}


class Scripted(BaseChatModel):
    """Streams what the scenario's script says."""

    turns: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        whole: Any = None
        for chunk in self._stream(messages):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            whole = chunk if whole is None else whole + chunk
        return self._result(whole)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        whole: Any = None
        async for chunk in self._astream(messages):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            whole = chunk if whole is None else whole + chunk
        return self._result(whole)

    def _result(self, whole: Any) -> ChatResult:
        value = whole.message
        message = AIMessage(
            content=value.content, tool_calls=value.tool_calls, invalid_tool_calls=value.invalid_tool_calls
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[ChatGenerationChunk]:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn >= len(self.turns):
            yield self._chunk("Done.", [])
            return
        for index, (call, name, args) in enumerate(self.turns[turn]):
            yield self._chunk("", [{"id": call, "name": name, "args": "", "index": index}])
            for piece in common.pieces(args):
                yield self._chunk("", [{"id": None, "name": None, "args": piece, "index": index}])

    def _chunk(self, text: str, calls: list[Any]) -> ChatGenerationChunk:
        chunks = [{"type": "tool_call_chunk", **call} for call in calls]
        return ChatGenerationChunk(message=AIMessageChunk(content=text, tool_call_chunks=chunks))


def _plain(function: Any) -> Any:
    """The same tool for code without an event loop."""

    @functools.wraps(function)
    def waits(**value: Any) -> Any:
        return asyncio.run(function(**value))

    return waits


def _pause(scenario: str, kinds: str) -> Any:
    """The library's own pause; a scenario with a question lets a person answer in the tool's place."""
    if scenario.startswith("own"):
        return HumanInTheLoopMiddleware(interrupt_on={"drop_table": True})
    allowed: Any = kinds.split("+") if kinds else ["respond"]
    per_call: Any = {"interrupt_mode": "per_call"} if "per_call" in allowed else {}
    config: Any = {"allowed_decisions": [kind for kind in allowed if kind != "per_call"]}
    return HumanInTheLoopMiddleware(interrupt_on={"ask_user": config, "drop_table": True}, **per_call)


@tool
def hand_over(status: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Answers by a command."""
    message = ToolMessage(f"Handed over: {status}", tool_call_id=tool_call_id, status=status)
    return Command(update={"messages": [message]})


def build(scenario: str, gate: bool, middleware: Any = None, kinds: str = "") -> Any:
    plain = (
        common.get_weather, common.fail, common.slow, common.hurried, common.delete_file, common.drop_table,
        common.delegate, common.ask_user,
    )  # fmt: skip
    tools = [
        StructuredTool.from_function(func=_plain(each), coroutine=each, name=each.__name__, description=each.__doc__)
        for each in plain
    ]
    tools.append(hand_over)
    middleware = [Gate()] if gate and middleware is None else middleware or []
    if scenario.startswith(("own", "question")):
        middleware.append(_pause(scenario, kinds))
    return create_agent(
        Scripted(turns=common.SCRIPTS[scenario]), tools=tools, middleware=middleware, checkpointer=InMemorySaver()
    )


async def play(cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    gate = payload["mode"] != "observe"
    if payload["mode"].startswith("alone"):
        await _alone(cards, payload, fields)
        return
    if payload["mode"] == "gate-sync":
        await asyncio.to_thread(_without_loop, cards, payload, fields)
        return
    agent = build(payload["scenario"], gate, kinds=payload.get("kinds", ""))
    common.INNER.append(lambda: build("inner", gate).ainvoke({"messages": [{"role": "user", "content": "go"}]}, INNER))
    with cards.run(payload["run"], agent="scribe", gate=gate, offline=common.OFFLINE) as run:
        config = watched(run, {"configurable": {"thread_id": payload["run"]}})
        try:
            going = agent.ainvoke({"messages": [{"role": "user", "content": "go"}]}, config)
            result = await common.within(payload, going)
            while gate and (answer := await aresume(result, run)):
                result = await agent.ainvoke(answer, config)
        finally:
            state = await agent.aget_state(config)
            for message in state.values.get("messages", []):
                if isinstance(message, ToolMessage):
                    text = message.content if isinstance(message.content, str) else json.dumps(message.content)
                    fields["saw"][message.tool_call_id] = [message.status, text]
        fields["output"] = result["messages"][-1].content


async def _alone(cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    """No `with` block, as where a platform imports the graph.

    A mode that ends with "closed" is an app that says when it is done.
    """
    ends_itself = payload["mode"].endswith("closed")
    gate = Gate(cards=cards, agent=payload.get("agent", payload["run"]), idle=600 if ends_itself else 0.3)
    agent = build(payload["scenario"], True, [gate])
    question = {"messages": [{"role": "user", "content": "go"}]}
    config = {"configurable": {"thread_id": "thread-7"}}
    if "sync" in payload["mode"]:
        result = await asyncio.to_thread(agent.invoke, question, config)
    else:
        result = await agent.ainvoke(question, config)
    if ends_itself:
        await asyncio.to_thread(gate.close)
    entries = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    fields["saw"] = {message.tool_call_id: [message.status, str(message.content)] for message in entries}


def _without_loop(cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    agent = build(payload["scenario"], True, kinds=payload.get("kinds", ""))
    with cards.run(payload["run"], agent="scribe", offline=common.OFFLINE) as run:
        config = watched(run, {"configurable": {"thread_id": payload["run"]}})
        result = agent.invoke({"messages": [{"role": "user", "content": "go"}]}, config)
        while answer := resume(result, run):
            result = agent.invoke(answer, config)
        entries = [message for message in result["messages"] if isinstance(message, ToolMessage)]
        fields["saw"] = {message.tool_call_id: [message.status, str(message.content)] for message in entries}


common.serve(play)
