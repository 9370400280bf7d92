"""The gateway over stdio: starts the MCP server, and carries messages between its streams and the client's."""
