"""An MCP client that makes the calls of a plan, and prints what came back.

    python mcp_client.py <sdk|fastmcp> <plan>

The plan is JSON: `url`, or `command` and `env`; `mode` of the official client (`auto` or `legacy`); `list`: whether it
lists the tools first; `no_forms`: it cannot show forms; `calls`: [tool, arguments] or
[tool, arguments, {"cancel": seconds}]; all at once if `parallel`. A call with {"again": true} is called again with the
same arguments while its result says that it waits, as models do.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

plan = json.loads(sys.argv[2])


async def answer_elicitation(*args: Any, **more: Any) -> Any:
    """Answer the server's question as the user would."""
    if sys.argv[1] == "fastmcp":
        return {"keep": "a.txt"}
    from mcp.types import ElicitResult

    return ElicitResult(action="accept", content={"keep": "a.txt"})


def make_client() -> Any:
    """Return a client of the plan's server."""
    env = os.environ | plan.get("env", {})
    if sys.argv[1] == "fastmcp":
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport

        target = plan.get("url") or StdioTransport(plan["command"][0], plan["command"][1:], env=env)
        return Client(target, elicitation_handler=None if plan.get("no_forms") else answer_elicitation)
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program, *args = plan.get("command") or ["-"]
    target = plan.get("url") or stdio_client(StdioServerParameters(command=program, args=args, env=env))
    answering = None if plan.get("no_forms") else answer_elicitation
    return Client(target, mode=plan.get("mode", "auto"), elicitation_callback=answering)


async def call(client: Any, tool: str, args: Any, more: Any) -> Any:
    """Return what one call gives: its text and whether it is an error."""
    options = {"raise_on_error": False} if sys.argv[1] == "fastmcp" else {}
    try:
        doing = client.call_tool(tool, args, **options)
        result = await (asyncio.wait_for(doing, more["cancel"]) if "cancel" in more else doing)
    except TimeoutError:
        return {"canceled": True}
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}
    text = "".join(getattr(part, "text", "") for part in result.content)
    if more.get("again") and text.startswith("Waiting for approval"):
        return await call(client, tool, args, more | {"waits": more.get("waits", 0) + 1})
    waits = {"waits": more["waits"]} if "waits" in more else {}
    return {"text": text, "is_error": bool(getattr(result, "is_error", getattr(result, "isError", False)))} | waits


async def main() -> None:
    async with make_client() as client:
        if plan.get("list", True):
            await client.list_tools()
        calls = [call(client, tool, args, more[0] if more else {}) for tool, args, *more in plan["calls"]]
        if plan.get("parallel"):
            results = await asyncio.gather(*calls)
        else:
            results = [await each for each in calls]
    print(json.dumps(results))


asyncio.run(main())
