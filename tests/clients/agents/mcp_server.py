"""An MCP server with tools that write down what they ran with.

    python mcp_server.py <sdk|fastmcp> <log> [port]

`sdk` is the server of the official package, `fastmcp` the one of FastMCP; over stdio, or streamable HTTP on a port.
MCP_DESCRIPTION changes the description of `delete_file`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

kind, log, *rest = sys.argv[1:]
port = int(rest[0]) if rest else 0


def write(tool: str, **args: Any) -> None:
    """Add one execution to the log."""
    with Path(log).open("a") as file:
        file.write(json.dumps({"tool": tool, "args": args}) + "\n")


def make_sdk_server() -> Any:
    from mcp.server.mcpserver import MCPServer

    return MCPServer("files")


def make_fastmcp_server() -> Any:
    from fastmcp import FastMCP

    return FastMCP("files")


server = make_sdk_server() if kind == "sdk" else make_fastmcp_server()


@server.tool(description=os.environ.get("MCP_DESCRIPTION", "Delete a file."))
async def delete_file(path: str, force: bool = False) -> str:
    """Delete a file."""
    write("delete_file", path=path, force=force)
    return f"deleted {path}"


@server.tool()
async def count_lines(path: str) -> dict[str, int]:
    """Count the lines of a file."""
    write("count_lines", path=path)
    if path == "missing":
        raise ValueError("no such file")
    return {"lines": 3}


class Choice(BaseModel):
    """What the user is asked for."""

    keep: str


class Order(BaseModel):
    """A form with a field of each kind."""

    size: Literal["S", "M", "L"]
    count: int = Field(ge=1, le=9, description="How many?")
    gift: bool = False
    note: str = ""


if kind == "sdk":
    from mcp.server.mcpserver.resolve import Elicit, ElicitationResult, Resolve

    async def ask() -> Any:
        """Ask the user which file to keep."""
        return Elicit("Which file?", Choice)

    @server.tool()
    async def choose(path: str, choice: Annotated[Choice, Resolve(ask)]) -> str:
        """Keep the file that the user chooses."""
        write("choose", path=path)
        return f"keep {choice.keep}"

    async def ask_order() -> Any:
        """Ask the user what to order."""
        return Elicit("What to order?", Order)

    @server.tool()
    async def order(item: str, answer: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> str:
        """Order what the user says."""
        write("order", item=item)
        return f"{answer.action} {answer.data.model_dump_json() if answer.action == 'accept' else ''}".strip()
else:
    from fastmcp import Context

    @server.tool()
    async def choose(path: str, ctx: Context) -> str:
        """Keep the file that the user chooses."""
        write("choose", path=path)
        answer = await ctx.elicit("Which file?", Choice)
        return f"keep {answer.data.keep}"

    @server.tool()
    async def order(item: str, ctx: Context) -> str:
        """Order what the user says."""
        write("order", item=item)
        answer = await ctx.elicit("What to order?", Order)
        return f"{answer.action} {answer.data.model_dump_json() if answer.action == 'accept' else ''}".strip()


if port:
    if kind == "sdk":
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.run("http", host="127.0.0.1", port=port, show_banner=False)
elif kind == "sdk":
    server.run("stdio")
else:
    server.run("stdio", show_banner=False)
