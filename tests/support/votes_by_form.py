"""Votes as the pages post them."""

from __future__ import annotations

from typing import Any

from toolcards.models import Approval, ToolCall


def form(call: ToolCall, decision: str = "approve", **more: Any) -> dict[str, Any]:
    """What the call's form in the page sends."""
    ask = call.as_card().approval
    assert ask is not None
    return {"decision": decision, "rev": call.as_card().rev, "args_sha256": ask.args_sha256, **more}


def address(call: ToolCall) -> str:
    return f"/approvals/{Approval.objects.get(call=call).pk}/vote"
