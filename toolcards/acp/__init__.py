"""`toolcards acp -- <agent command>`: a proxy between an editor and an agent that speak the Agent Client Protocol.

The editor starts it instead of the agent. Messages pass through byte for byte and are copied to the server. Permission
requests are answered by the gate (`--gate`, the default), or by the first answer of the editor and the dashboard
(`--mirror`). It uses only the standard library and the client, so it starts quickly and needs no database.
"""

from toolcards.acp.proxy import main

__all__ = ["main"]
