"""The decision object that an agent receives for its call (docs/api.md), built from the card."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from toolcards.core import input_repair
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, EDITED, Card, ToolCallState
from toolcards.core.calls.reducer import DECLINED
from toolcards.gate import policy_store
from toolcards.gate.decisions.digests import digest_call, digest_input
from toolcards.gate.decisions.preflight import get_offered_tools, get_stopper, is_stopped
from toolcards.gate.writer.cache.run_memory import RunMemory

S = ToolCallState
_CODES = {
    "human": {"deny": "approval_denied", "allow": "approved"},
    "reviewer": {"deny": "review_denied", "allow": "review_allowed"},
    "timeout": {"deny": "approval_expired"},
    "kill_switch": {"deny": "kill_switch"},
}
_TEXTS = {
    "approval_denied": DECLINED,
    "approval_expired": "No one answered in time. The call did not run; you can request it again later.",
    "kill_switch": "All tool calls are stopped. Do not call tools until a person lets calls run again.",
    "permit_expired": "Approved, but not started in time. Request the call again.",
    "lost": "The call started, but no result arrived. It may have run: check before you repeat it.",
    "approved": "A person approved",
    "review_denied": "An automatic reviewer denied this call",
    "review_allowed": "An automatic reviewer allowed this call",
    "edited": "A reviewer changed this call: run it with `args` and do not send the original again",
    "run_ended": "The run was stopped.",
    "superseded": "The call changed before it was decided, so this decision is void. Request the call again.",
    "used": "The call ended before this answer was used. There is nothing to run.",
}


def get_effect(card: Card) -> str:
    """Return the current effect of the gate's decision: allow, deny or ask."""
    ask, permit = card.approval, card.permit
    if card.state is S.OUTPUT_DENIED or is_stopped(card):
        return "deny"
    if ask is not None and (ask.opener == "gate" or card.decision is None):
        return get_approval_effect(card)
    if card.decision is None or (permit is not None and permit.state in _VOID_PERMIT_STATES):
        return "deny"
    return "allow" if card.decision.effect == "allow" else "deny"


def get_approval_effect(card: Card) -> str:
    """Return the effect of the approval: ask, allow or deny."""
    ask = card.approval
    if ask is None or card.state is S.OUTPUT_DENIED:
        return "deny"
    if ask.state == "pending":
        return "ask" if card.state is S.APPROVAL_REQUESTED else "deny"
    is_lost = ask.state == "unknown" and card.soft and card.by_hand is None
    return "allow" if ask.state in _APPROVED_STATES and not is_lost else "deny"


_APPROVED_STATES = frozenset({"approved", "claimed", "succeeded", "failed", "unknown"})
_VOID_PERMIT_STATES = frozenset({"void", "expired", "revoked", "superseded"})


def build_decision(memory: RunMemory, card: Card, **more: Any) -> dict[str, Any]:
    """Return the decision object (docs/api.md); `more` adds permit and attempt."""
    verdict, ask = card.decision, card.approval
    effect, decider = get_effect(card), _find_decider(card)
    code = _get_reason_code(card, effect, decider)
    return (
        {
            "v": 1,
            "decision": effect,
            "decision_id": f"dec_{memory.row.pk}-{card.ordinal}-{ask.id if ask else verdict.version if verdict else 0}",
            "run": memory.row.name,
            "call_id": card.call_id,
            "args_sha256": digest_input(card),
            "call_sha256": digest_call(card),
            "tool": {"name": card.tool.name, "source": card.tool.source},
            "attempt": card.attempt,
            "policy": {"version": verdict.version, "sha256": _get_policy_sha256(verdict.version)} if verdict else None,
            "by": {"kind": decider.kind, "name": decider.name, "ids": [decider.name] if decider.name else []},
            "reason": {
                "code": code,
                "text": _get_reason_text(card, code),
                "suggest": verdict.suggest if verdict and effect != "allow" else "",
            },
            "approval": build_approval(card),
            "permit": None,
            "would": list(verdict.would) if verdict else [],
        }
        | ({} if card.repair in {"", BY_SOURCE, EDITED} else _describe_repair(card, effect))
        | ({} if card.error is None else _describe_schema_errors(memory, card))
        | more
    )


def _describe_repair(card: Card, effect: str) -> dict[str, Any]:
    """Return the repair and, if allowed, the repaired args."""
    repair = {"method": card.repair, "tool": card.tool.name}
    args = {"args": card.input} if effect == "allow" else {}
    return {"repair": repair, **args}


def _describe_schema_errors(memory: RunMemory, card: Card) -> dict[str, Any]:
    """Return the schema errors of a refused input, for a retry; {} for other calls."""
    if not is_stopped(card) or card.error is None or card.error.code != "invalid_input":
        return {}
    trouble = input_repair.check(card.tool.name, card.input, get_offered_tools(memory), has_input=card.has_input)
    findings = trouble.findings if trouble is not None else ()
    return {"places": [asdict(finding) for finding in findings]}


def build_approval(card: Card) -> dict[str, Any] | None:
    """Return the approval part of a decision object."""
    ask = card.approval
    if ask is None:
        return None
    return {
        "id": ask.id, "state": ask.state, "need": ask.terms.get("need", 1), "have": ask.have,
        "decide_by": format_time(ask.expires_at), "poll": f"/api/v1/approvals/{ask.id}?wait=25",
        "twin": ask.twin or None,
    }  # fmt: skip


def format_time(seconds: float) -> str | None:
    """Return epoch seconds as ISO 8601 (UTC, milliseconds), None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _find_decider(card: Card) -> f.Actor:
    if is_stopped(card):
        return get_stopper(card)
    if card.approval is not None:
        if _is_revoked(card) and card.denied_by:
            return card.denied_by
        if _is_approval_unused(card):
            return f.Actor("timeout")
        if card.denied_by and _is_denied_after_approval(card):
            return card.denied_by
        if card.approval.by and not _is_approval_closed(card):
            return card.approval.by
    if card.denied_by:
        return card.denied_by
    return card.decision.by if card.decision else f.Actor("gate_error")


def _is_revoked(card: Card) -> bool:
    """Return whether a person's approval was revoked."""
    return card.state is S.OUTPUT_DENIED and card.approval is not None and card.approval.state == "revoked"


def _is_denied_after_approval(card: Card) -> bool:
    """Return whether the call was approved, and denied where it should have run."""
    ask = card.approval
    if ask is None or card.state is not S.OUTPUT_DENIED:
        return False
    is_unused = ask.state == "expired" and ask.by is not None and ask.by.kind == "human"
    return is_unused or ask.state in _APPROVED_STATES


def _is_approval_unused(card: Card) -> bool:
    """Return whether the approval expired because the call did not begin in time."""
    return card.soft and card.approval is not None and card.approval.state == "expired"


def _is_permit_void(card: Card) -> bool:
    """Return whether a rule's permit can no longer be used."""
    return card.permit is not None and card.permit.state in _VOID_PERMIT_STATES and card.state is not S.OUTPUT_DENIED


def _is_approval_closed(card: Card) -> bool:
    """Return whether the call ended before its approval was decided or used."""
    return card.approval is not None and card.approval.state in {"cancelled", "superseded"}


def _is_superseded(card: Card) -> bool:
    """Return whether the call was replaced by one with another tool or input."""
    return card.cause == "superseded" or bool(card.approval and card.approval.state == "superseded")


def _get_reason_code(card: Card, effect: str, decider: f.Actor) -> str:
    if card.error and is_stopped(card):
        return card.error.code
    if card.approval is not None and _is_approval_unused(card):
        return "permit_expired"
    if effect == "deny" and _is_superseded(card):
        return "superseded"
    if effect == "deny" and _is_permit_void(card):
        return "permit_expired" if card.permit and card.permit.state == "expired" else "run_ended"
    if effect == "deny" and _is_approval_closed(card):
        return "used" if card.hard else "run_ended"
    if effect == "deny" and card.approval and card.approval.state == "unknown":
        return "lost"
    code = _CODES.get(decider.kind, {}).get(effect)
    if code:
        return code
    code = card.decision.code if card.decision else "gate_error"
    return "run_ended" if effect == "deny" and code == "approved" else code


def _get_reason_text(card: Card, code: str) -> str:
    comment = card.approval.reason if card.approval else ""
    if card.approval is not None and _is_denied_after_approval(card):
        return card.denied or "The call was denied where it should have run."
    if card.error and is_stopped(card):
        return card.error.message
    if card.approval is not None and _is_revoked(card):
        return card.denied
    if code == "approved" and card.repair == EDITED:
        code = "edited"
    if code in {"edited", "approval_denied", "approved", "review_denied", "review_allowed"}:
        return f"{_TEXTS[code]}: {comment}" if comment else f"{_TEXTS[code]}."
    if code in _TEXTS:
        return _TEXTS[code]
    return comment or (card.decision.reason if card.decision else "")


def _get_policy_sha256(version: int) -> str:
    try:
        policy = policy_store.get_active_policy()
    except policy_store.NoActivePolicy:
        return ""
    return policy.sha256 if policy.version == version else ""
