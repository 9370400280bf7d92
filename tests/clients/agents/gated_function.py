"""One run of a framework that has no module of ours: its tools are functions with `@gated`, in a run's block.

    python gated_function.py <smolagents|mcp|adk|crewai> <ok|deny> <run>

The framework's real agent loop runs with a model that calls the tool once and then ends. Prints one JSON line: the
paths that the tool ran with, and what the model was given.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from toolcards.client import Toolcards, gated

PATHS = {"ok": "a.txt", "deny": "echo forbidden"}  # as the policy of gating.py judges them
ran: list[str] = []
cards = Toolcards()


def in_smolagents(path: str) -> str:
    from smolagents import ChatMessage, Model, ToolCallingAgent, tool
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

    prompts: list[str] = []

    class Fake(Model):
        def generate(self, messages: Any, **more: Any) -> Any:
            prompts.append(str(messages))
            name, args = ("delete_file", {"path": path}) if len(prompts) == 1 else ("final_answer", {"answer": "done"})
            function = ChatMessageToolCallFunction(name=name, arguments=args)
            call = ChatMessageToolCall(id="call_0", type="function", function=function)
            return ChatMessage(role="assistant", content="", tool_calls=[call])

    @tool
    @gated(cards)
    def delete_file(path: str) -> str:
        """Delete a file.

        Args:
            path: The file.
        """
        ran.append(path)
        return "deleted"

    ToolCallingAgent(tools=[delete_file], model=Fake(), max_steps=3, verbosity_level=0).run("tidy up")
    return prompts[-1]


def in_mcp(path: str) -> str:
    from mcp import Client
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("files")

    @server.tool()
    @gated(cards, denial=ToolError)  # MCP hides the text of other exceptions
    async def delete_file(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    async def call() -> str:
        async with Client(server) as client:
            return str((await client.call_tool("delete_file", {"path": path})).content)

    return asyncio.run(call())


def in_adk(path: str) -> str:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    prompts: list[str] = []

    class Fake(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            prompts.append(str(llm_request.contents))
            call = types.Part.from_function_call(name="delete_file", args={"path": path})
            part = call if len(prompts) == 1 else types.Part(text="done")
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    @gated(cards)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    def handle_tool_error(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
        return {"error": str(error)}

    agent = LlmAgent(
        name="scribe", model=Fake(model="fake"), tools=[delete_file], on_tool_error_callback=handle_tool_error
    )

    async def run() -> None:
        runner = InMemoryRunner(agent=agent)
        await runner.run_debug("tidy up", quiet=True)

    asyncio.run(run())
    return prompts[-1]


def in_crewai(path: str) -> str:
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.tools import tool

    prompts: list[str] = []

    class Fake(BaseLLM):
        def call(self, messages: Any, *args: Any, **more: Any) -> str:
            prompts.append(str(messages))
            if len(prompts) == 1:
                return f"Thought: go\nAction: delete_file\nAction Input: {json.dumps({'path': path})}"
            return "Thought: I now know the final answer\nFinal Answer: done"

        def supports_function_calling(self) -> bool:
            return False

    @tool("delete_file")
    @gated(cards, denial=str)  # CrewAI calls a tool that raises again, up to six times
    def delete_file(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    agent = Agent(role="scribe", goal="tidy", backstory="", llm=Fake(model="fake"), tools=[delete_file], max_iter=3)
    Crew(agents=[agent], tasks=[Task(description="tidy up", expected_output="done", agent=agent)]).kickoff()
    return prompts[-1]


def main(framework: str, scenario: str, run: str) -> None:
    work = {"smolagents": in_smolagents, "mcp": in_mcp, "adk": in_adk, "crewai": in_crewai}[framework]
    with cards.run(run, agent="scribe"):
        last_prompt = work(PATHS[scenario])
    print(json.dumps({"ran": ran, "seen": last_prompt}))


main(*sys.argv[1:])
