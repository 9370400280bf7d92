"""`toolcards mcp`: a gateway between an MCP client and an MCP server that holds each `tools/call` for the gate.

The client starts it instead of the server (stdio), or connects to it instead of the server's URL (streamable HTTP).
Everything else passes through unchanged, so it works with every protocol version, also elicitation, sampling, progress
and resources. The server receives exactly what was allowed: the gateway writes each call itself, from the arguments
that the gate decided on. It uses only the standard library and our client. Written against the MCP specification
2025-11-25 and 2026-07-28, and the Python SDK 1.30 and 2.3.

`stdio/relay` and `http/proxy` carry the messages, and `session` holds the calls.
"""

from toolcards.mcp.command import main

__all__ = ["main"]
