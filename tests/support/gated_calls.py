"""A call over HTTP that a rule asks about: its request, rules for it, and its way to an approval."""

from __future__ import annotations

import time
from typing import Any

from channels.db import database_sync_to_async as in_thread

from toolcards import gate
from toolcards.models import Run, ToolCall
from toolcards.models.write_guard import allow_log_writes

DECIDE = "/api/v1/calls/decide"
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}
ASK = {"id": "push", "effect": "ask", "match": {"tool": ["bash"]}}
ALLOW = {"id": "may", "effect": "allow", "match": {"tool": ["bash"]}}
DENY = {"id": "never", "effect": "deny", "match": {"tool": ["bash"]}}
PUSH = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "git push"}}


async def get_approval(call: Any, person: Any, ballot: Any, **more: Any) -> tuple[str, dict[str, Any], str]:
    """Approve the call; return the path and body to claim its permit, and the approval's id."""
    _, decision, _ = await call("POST", DECIDE, QUESTION | more)
    await in_thread(lambda: gate.vote(person, ballot(ToolCall.objects.get(), "approve")))()
    _, decision, _ = await call("GET", decision["approval"]["poll"])
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    return f"/api/v1/permits/{decision['permit']['id']}/claim", proof, decision["approval"]["id"]


def end_leases() -> None:
    """Let the leases of all runs end a second ago."""
    with allow_log_writes():
        Run.objects.update(alive_until=time.time() - 1)
