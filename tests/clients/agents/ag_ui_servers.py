"""AG-UI endpoints of real agents with scripted models: `/pydantic-ai`, and three `/langgraph`, whose middleware asks.

The last user message names the scenario (`run <scenario>`). The tools that really ran are listed at `/ran/<thread>`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvicorn
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI, Request
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter

RAN: list[list[Any]] = []
Call = tuple[str, str, Any]
SCRIPTS: dict[str, list[Call]] = {
    "success": [("call_a", "get_weather", {"city": "Paris"})],
    "error": [("call_b", "fail", {"message": "disk on fire"})],
    "empty": [("call_c", "fail", {"message": ""})],
    "unknown": [("call_d", "no_such_tool", {"x": 1})],
    "invalid": [("call_e", "get_weather", {"town": 42})],
    "ask": [("call_f", "delete_file", {"path": "/a"})],
    "two": [("call_g", "delete_file", {"path": "/a"}), ("call_h", "delete_file", {"path": "/b"})],
    "parallel": [
        ("call_i", "slow", {"ms": 60}),
        ("call_j", "fail", {"message": "boom"}),
        ("call_k", "slow", {"ms": 5}),
    ],
    "abort": [("call_l", "slow", {"ms": 60_000})],
    "input": [("call_m", "book", {"trip": "a"})],
    "inputs": [("call_m", "book", {"trip": "a"}), ("call_n", "book", {"trip": "b"})],
}


def pieces(value: Any) -> list[str]:
    text = json.dumps(value)
    return [text[at : at + 7] for at in range(0, len(text), 7)]


async def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    RAN.append(["get_weather", city])
    return {"city": city, "temp": 21}


async def slow(ms: int) -> dict[str, Any]:
    """Take some time."""
    await asyncio.sleep(ms / 1000)
    return {"slept": ms}


async def delete_file(path: str) -> dict[str, Any]:
    """Delete a file."""
    RAN.append(["delete_file", path])
    return {"deleted": path}


# ---------------------------------------------------------------- Pydantic AI


def pydantic_agent(scenario: str) -> Agent[None, Any]:
    async def stream(messages: Any, info: Any) -> Any:
        if any(isinstance(message, ModelResponse) for message in messages):
            yield "done"
            return
        for index, (call_id, name, entry) in enumerate(SCRIPTS[scenario]):
            yield {index: DeltaToolCall(name=name, json_args="", tool_call_id=call_id)}
            for piece in pieces(entry):
                yield {index: DeltaToolCall(json_args=piece)}
                await asyncio.sleep(0.001)

    agent: Agent[None, Any] = Agent(FunctionModel(stream_function=stream), output_type=[str, DeferredToolRequests])
    agent.tool_plain(get_weather)
    agent.tool_plain(slow)
    agent.tool_plain(delete_file, requires_approval=True)

    @agent.tool_plain
    async def fail(message: str) -> str:
        raise ToolFailed(message)

    return agent


# ---------------------------------------------------------------- LangGraph


class Scripted(BaseChatModel):
    """Calls what the scenario says, then is done."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
        scenario = str(messages[0].content).split()[-1]
        if any(isinstance(message, AIMessage) for message in messages):
            yield ChatGenerationChunk(message=AIMessageChunk(content="done"))
            return
        for index, (call_id, name, entry) in enumerate(SCRIPTS[scenario]):
            for part in [(call_id, name, ""), *((None, None, piece) for piece in pieces(entry))]:
                chunk = {"type": "tool_call_chunk", "index": index, "id": part[0], "name": part[1], "args": part[2]}
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))
                await asyncio.sleep(0.001)


@tool
async def fail(message: str) -> str:
    """Fail."""
    from langchain_core.tools import ToolException

    raise ToolException(message)


fail.handle_tool_error = True
CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"]}


@tool
async def book(trip: str) -> str:
    """Book a trip; asks the user where to."""
    answer = interrupt({"reason": "input_required", "message": f"Where does {trip} go?", "responseSchema": CITY})
    RAN.append(["book", trip, answer])
    return json.dumps(answer)


def build_asking_graph(**how: Any) -> Any:
    """A graph that asks before it deletes; the library's default is one question for all calls of a turn."""
    return create_agent(
        Scripted(), tools=[tool(get_weather), tool(slow), tool(delete_file), fail, book], checkpointer=InMemorySaver(),
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"delete_file": True}, **how)],
    )  # fmt: skip


app = FastAPI()
GRAPHS = {
    "/langgraph": LangGraphAgent(
        name="lg",
        graph=build_asking_graph(interrupt_mode="per_call"),
        emit_interrupt_outcome=True,
        emit_raw_events=False,
    ),
    "/langgraph-batch": LangGraphAgent(
        name="lb", graph=build_asking_graph(), emit_interrupt_outcome=True, emit_raw_events=False
    ),
    "/langgraph-default": LangGraphAgent(name="ld", graph=build_asking_graph()),
}
for path, agent in GRAPHS.items():
    add_langgraph_fastapi_endpoint(app, agent, path)


@app.post("/pydantic-ai")
async def pydantic_ai(request: Request) -> Any:
    result = await request.json()
    scenario = next(str(one["content"]).split()[-1] for one in result["messages"] if one["role"] == "user")
    return await AGUIAdapter.dispatch_request(request, agent=pydantic_agent(scenario))


@app.get("/ran")
async def ran() -> Any:
    runs_before = list(RAN)
    RAN.clear()
    return runs_before


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
