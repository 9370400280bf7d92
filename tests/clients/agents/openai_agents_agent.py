"""A real OpenAI Agents SDK agent, its model on loopback, connected through `toolcards.client.openai_agents`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import common
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from toolcards.client import Toolcards
from toolcards.client.openai_agents import Watch, answered, config, gated, streamed

set_tracing_disabled(True)


def build(gate: bool) -> Agent[Any]:
    functions = (common.get_weather, common.fail, common.slow, common.hurried, common.delete_file, common.delegate)
    plain = [function_tool(each) for each in functions]
    own = function_tool(common.drop_table, needs_approval=True)
    model = OpenAIChatCompletionsModel("fake-model", AsyncOpenAI(base_url=f"{os.environ['MODEL']}/v1", api_key="none"))
    child = Agent(name="child", model=model, tools=[gated(own) if gate else own])
    tools = (*plain, own, child.as_tool("team", "Asks another agent.", on_stream=lambda event: None))
    return Agent(name="scribe", model=model, tools=[gated(tool) if gate else tool for tool in tools])


async def play(cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    gate = payload["mode"] == "gate"
    agent = build(gate)
    common.INNER.append(lambda: _drained(Runner.run_streamed(build(gate), "SCENARIO:inner").stream_events()))
    async with cards.run(payload["run"], agent="scribe", gate=gate, offline=common.OFFLINE) as run:
        options = {
            "hooks": Watch(run),
            "run_config": config(run, RunConfig(tool_not_found_behavior="return_error_to_model")),
        }
        result = Runner.run_streamed(agent, f"SCENARIO:{payload['scenario']}", **options)
        cutting = asyncio.ensure_future(_cut(result)) if payload["scenario"] == "cancel" else None
        while True:
            await common.within(payload, _drained(streamed(result, run)))
            if not (gate and result.interruptions):
                break
            result = Runner.run_streamed(agent, await answered(result, run), **options)
        for item in result.to_input_list():
            if item.get("type") == "function_call_output":
                fields["saw"][item["call_id"]] = ["", str(item["output"])]
        fields["output"] = str(result.final_output)
        if cutting is not None:
            await cutting


async def _drained(events: Any) -> None:
    async for _ in events:
        pass


async def _cut(result: Any) -> None:
    """Stop a streamed run as an app does, without an exception."""
    while not common.BEGAN.is_set():
        await asyncio.sleep(0.05)
    result.cancel()


common.serve(play)
