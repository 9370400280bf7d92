"""Outputs of Claude Code hooks: what each gating event understands as allow and deny.

Read from and tested with Claude Code 2.1.329. An empty output means no opinion.
"""

from __future__ import annotations

from typing import Any

SILENT: dict[str, Any] = {}  # no opinion: the program follows its own rules
NO_ONE = "No one answered in time."
# Deciders whose permission is passed on. Where only the default allows, the output is silent.
_EXPLICIT_DECIDERS = frozenset({"human", "rule", "grant", "break_glass"})


def format_pre_tool_use(decision: dict[str, Any]) -> dict[str, Any]:
    """Return the output of PreToolUse; silent where only the default allows."""
    if decision["decision"] != "allow":
        return deny_pre_tool_use(format_reason(decision))
    if decision["by"]["kind"] not in _EXPLICIT_DECIDERS:
        return SILENT
    output: dict[str, Any] = {"permissionDecision": "allow", "permissionDecisionReason": format_reason(decision)}
    if "args" in decision:
        output["updatedInput"] = decision["args"]
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse"} | output}


def format_permission_request(decision: dict[str, Any]) -> dict[str, Any]:
    """Return the output of PermissionRequest for a call that is already decided.

    Silent unless a person decided or the call is denied.
    """
    if decision["decision"] == "deny":
        return deny_permission_request(format_reason(decision))
    if decision["by"]["kind"] != "human":
        return SILENT
    behavior: dict[str, Any] = {"behavior": "allow"}
    if "args" in decision:
        behavior["updatedInput"] = decision["args"]
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": behavior}}


def deny_pre_tool_use(why: str) -> dict[str, Any]:
    """Return the output that denies a PreToolUse."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": output}


def deny_permission_request(why: str) -> dict[str, Any]:
    """Return the output that denies a PermissionRequest."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": why},
        }
    }  # fmt: skip


DENIALS = {"PreToolUse": deny_pre_tool_use, "PermissionRequest": deny_permission_request}


def format_reason(decision: dict[str, Any]) -> str:
    """Return the decision's reason and suggestion as a text for the model."""
    reason = decision.get("reason") or {}
    text = NO_ONE if reason.get("code") == "approval_expired" else reason.get("text") or NO_ONE
    return " ".join(part for part in (text, reason.get("suggest", "")) if part)
