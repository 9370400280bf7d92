"""An MCP server with tools that write down what they ran with.

    python mcp_server.py <sdk|fastmcp> <log> [port]

`sdk` is the server of the official package, `fastmcp` the one of FastMCP; over stdio, or streamable HTTP on a port.
MCP_DESCRIPTION changes the description of `delete_file`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel

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


if kind == "sdk":
    from mcp.server.mcpserver.resolve import Elicit, Resolve

    async def ask() -> Any:
        """Ask the user which file to keep."""
        return Elicit("Which file?", Choice)

    @server.tool()
    async def choose(path: str, choice: Annotated[Choice, Resolve(ask)]) -> str:
        """Keep the file that the user chooses."""
        write("choose", path=path)
        return f"keep {choice.keep}"
else:
    from fastmcp import Context

    @server.tool()
    async def choose(path: str, ctx: Context) -> str:
        """Keep the file that the user chooses."""
        write("choose", path=path)
        answer = await ctx.elicit("Which file?", Choice)
        return f"keep {answer.data.keep}"


if port:
    if kind == "sdk":
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.run("http", host="127.0.0.1", port=port, show_banner=False)
elif kind == "sdk":
    server.run("stdio")
else:
    server.run("stdio", show_banner=False)
