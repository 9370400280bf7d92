"""The client for agents. It needs only the standard library, so you can copy the folder.

cards = Toolcards("http://127.0.0.1:8000", key)          # or TOOLCARDS_URL and TOOLCARDS_AGENT_KEY

@gated(cards, run="nightly")                             # plain and async functions
def delete_branch(name: str) -> None: ...

async with cards.run(agent="scribe") as run:             # or `with`, and `call.allowed_now(…)`
    call = run.call("bash")
    args = await call.allowed({"command": "git push"})
    call.output(execute(args))

For agent frameworks see the modules pydantic_ai, langchain, openai_agents and plain, which are imported by name.
"""

from .calls import Call
from .decisions.answers import Decision, Denied
from .gate_client import Toolcards, Unreachable
from .gated import gated
from .stream import Run, current
from .transport.websocket import ConnectionClosed
from .values.outputs import BadOutput

Closed = ConnectionClosed  # its earlier name

__all__ = [
    "BadOutput",
    "Call",
    "Closed",
    "ConnectionClosed",
    "Decision",
    "Denied",
    "Run",
    "Toolcards",
    "Unreachable",
    "current",
    "gated",
]
