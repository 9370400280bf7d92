"""An app on the real Claude Agent SDK: one prompt, with a permission callback of its own; told what to do by lines.

The first line is {"prompt", "session", "host", "isolated", "settings", "allowed"}; a later line `interrupt` stops the
turn, `allow` and `deny` answer what the callback was asked. `host`: "wait" for such a line, "gate" to ask Toolcards,
"" for no callback at all. It prints a line for each question, and a last one with the results of its messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
)

from toolcards.client import Toolcards


def tell(**value: Any) -> None:
    print(json.dumps(value), flush=True)


async def main() -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    command = json.loads(sys.stdin.readline())

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line.strip())

    threading.Thread(target=read, daemon=True).start()
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def host(tool: str, payload: dict[str, Any], about: Any) -> Any:
        tell(asked=tool, call=about.tool_use_id)
        if command["host"] == "gate":
            toolcards = await Toolcards().aask(command["session"], about.tool_use_id, tool, payload)
            if toolcards.allowed:
                return PermissionResultAllow(updated_input=toolcards.args)
            return PermissionResultDeny(message=toolcards.text)
        try:
            toolcards = await answers.get()
        except asyncio.CancelledError:
            tell(withdrawn=about.tool_use_id)
            raise
        return PermissionResultAllow() if toolcards == "allow" else PermissionResultDeny(message="The app said no.")

    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5", session_id=command["session"], cwd=os.environ["PROJECT"],
        can_use_tool=host if command["host"] else None, allowed_tools=command["allowed"],
        setting_sources=[] if command["isolated"] else None, settings=command["settings"],
    )  # fmt: skip
    results: dict[str, Any] = {}
    async with ClaudeSDKClient(options) as client:

        async def obey() -> None:
            while True:
                line = await lines.get()
                if line == "interrupt":
                    await client.interrupt()
                else:
                    answers.put_nowait(line)

        obeying = asyncio.create_task(obey())
        await client.query(command["prompt"])
        async for message in client.receive_response():
            for block in message.content if isinstance(message, UserMessage | AssistantMessage) else ():
                if isinstance(block, ToolResultBlock):
                    results[block.tool_use_id] = [bool(block.is_error), str(block.content)]
            if isinstance(message, ResultMessage):
                results["end"] = message.subtype
        obeying.cancel()
    tell(results=results)


asyncio.run(main())
