"""`toolcards acp -- <agent command>`: a proxy between an editor and an agent that speak the Agent Client Protocol.

The editor starts it in the agent's place. What both say passes through byte for byte; a copy goes to the server, and
permission requests are answered by the gate (`--gate`, the default) or by whoever answers first, the editor or a
person at the dashboard (`--mirror`). Standard library and our client only: it starts at once and needs no database.
"""

from toolcards.acp.command import main

__all__ = ["main"]
