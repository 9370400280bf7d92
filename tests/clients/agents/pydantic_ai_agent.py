"""A real Pydantic AI agent with a scripted model, connected through `toolcards.client.pydantic_ai`."""

from __future__ import annotations

import base64
from typing import Any

import common
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, DeferredToolResults, ModelRetry, ToolReturn
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from toolcards.client import Toolcards, current
from toolcards.client.pydantic_ai import Gate, Watch

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def build(scenario: str) -> Agent[None, Any]:
    turns = common.SCRIPTS[scenario]

    async def stream(messages: list[Any], info: Any) -> Any:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn >= len(turns):
            yield "Done."
            return
        for index, (call, tool, args) in enumerate(turns[turn]):
            yield {index: DeltaToolCall(name=tool, json_args="", tool_call_id=call)}
            for piece in common.pieces(args):
                yield {index: DeltaToolCall(json_args=piece)}

    agent = Agent(
        FunctionModel(stream_function=stream), output_type=[str, DeferredToolRequests], retries=2, name="scribe"
    )
    for tool in (common.get_weather, common.fail, common.slow, common.hurried, common.delete_file, common.delegate):
        agent.tool_plain(tool)
    agent.tool_plain(requires_approval=True)(common.drop_table)
    for tool in (later, picky, shot):
        agent.tool_plain(tool)
    return agent


def later(path: str) -> str:
    raise CallDeferred


def picky(path: str) -> str:
    raise ModelRetry("not there")


def shot(path: str) -> ToolReturn:
    return ToolReturn("took it", content=["here", BinaryContent(base64.b64decode(PICTURE), media_type="image/png")])


async def play(cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    agent = build(payload["scenario"])
    kind = Gate if payload["mode"] == "gate" else Watch
    common.INNER.append(lambda: build("inner").run("go", capabilities=[kind(current())]))
    if payload["scenario"].endswith("deadline"):  # in a run that the app has opened itself
        async with cards.run(payload["run"], gate=kind.gate, offline=common.OFFLINE) as run:
            await common.within(payload, agent.run("go", capabilities=[kind(run)]))
    result = await agent.run("go", capabilities=[kind(cards, run=payload["run"], offline=common.OFFLINE)])
    if payload["scenario"] == "deferred-brought":  # the app has the results, and continues in a run of the same name
        results = DeferredToolResults(calls={"call_da": "done later", "call_db": ModelRetry("no such file")})
        history, again = result.all_messages(), [kind(cards, run=payload["run"], offline=common.OFFLINE)]
        result = await agent.run(message_history=history, deferred_tool_results=results, capabilities=again)
    for message in result.all_messages():
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if getattr(part, "tool_call_id", None):
                outcome = part.outcome if isinstance(part, ToolReturnPart) else "retried"
                fields["saw"][part.tool_call_id] = [
                    outcome,
                    part.model_response_str() if isinstance(part, ToolReturnPart) else str(part.content),
                ]
    fields["output"] = result.output if isinstance(result.output, str) else type(result.output).__name__


common.serve(play)
