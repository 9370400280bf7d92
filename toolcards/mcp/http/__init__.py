"""The gateway over streamable HTTP: a reverse proxy before the MCP server."""
