"""AG-UI interrupts: a run ends with them, and the next run's `resume` answers them.

Source: AG-UI 1.0 concept "interrupts", and its three producers as recorded: Pydantic AI 2.68 (`{"approved": …}`),
LangGraph 0.0.47 (LangChain decisions, one interrupt for one call or for a batch without call ids) and
TanStack AI 0.58 (only `approved`). `reply_to` names the producer that asked. Interrupts that ask for a value are
questions (`input_requests`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from toolcards.adapters.ag_ui import input_requests
from toolcards.adapters.base import ApprovalAnswer, BadFrame, Facts
from toolcards.adapters.frames import ProtocolFrame
from toolcards.adapters.strict import loads
from toolcards.core.calls import facts as f


class Interrupt(ProtocolFrame):
    """One entry of `RUN_FINISHED.outcome.interrupts`."""

    model_config = ConfigDict(alias_generator=to_camel)
    id: str
    reason: str = ""
    message: str | None = None
    tool_call_id: str | None = None
    expires_at: str | None = None
    metadata: dict[str, Any] | None = None
    response_schema: Any = None

    def to_facts(self, run_id: str = "") -> Facts:
        """Return the requests in the interrupt, which ends this run."""
        if self._is_client_tool():
            return [f.CallClosed(self.tool_call_id, "ok")] if self.tool_call_id else []
        if input_requests.asks_for_input(self.reason, self.tool_call_id, self.response_schema):
            return self._read_input_request(run_id)
        requests = _read_langchain(self._get_langgraph_request(), self.id)
        if requests is None:
            call_id = self.tool_call_id or ""
            requests = [f.ApprovalRequested(call_id, self.id, reply_to=self._build_reply_to())] if call_id else []
        return [self._add_details(question) for question in requests]

    def _read_input_request(self, run_id: str) -> Facts:
        form = input_requests.read_request(
            self.id, run_id, self.message, self.response_schema, is_langgraph="langgraph" in (self.metadata or {})
        )
        return [replace(self._add_details(form), reason=input_requests.REQUEST)] if form is not None else []

    def is_tanstack(self) -> bool:
        """Return whether TanStack AI wrote the interrupt."""
        return "tanstack:interruptBinding" in (self.metadata or {})

    def _is_client_tool(self) -> bool:
        kind = (self.metadata or {}).get("kind")
        return kind == "client_tool" or self.reason == "tanstack:client_tool_execution"

    def _get_langgraph_request(self) -> Any:
        langgraph = (self.metadata or {}).get("langgraph")
        return langgraph.get("raw") if isinstance(langgraph, dict) else None

    def _build_reply_to(self) -> dict[str, Any]:
        metadata = self.metadata or {}
        if self.is_tanstack():
            return {"interruptId": self.id, "style": "tanstack"}
        return {"interruptId": self.id, "style": "langgraph" if "langgraph" in metadata else "approval"}

    def _add_details(self, request: f.ApprovalRequested) -> f.ApprovalRequested:
        return f.ApprovalRequested(
            request.call_id or (self.tool_call_id or ""), request.source_id, reason=self.message or request.reason,
            expires_at=_parse_time(self.expires_at), reply_to=request.reply_to, tool=request.tool, input=request.input,
        )  # fmt: skip


def read_legacy(value: Any, interrupt_id: str = "") -> Facts:
    """Return the approval requests of LangGraph's `CUSTOM on_interrupt` (JSON text)."""
    if isinstance(value, str):
        try:
            value = loads(value)
        except BadFrame:
            return []  # an interrupt() of the program itself, not about a call
    return list(_read_langchain(value, interrupt_id) or [])


def encode(answer: ApprovalAnswer) -> dict[str, Any]:
    """Return the `ResumeEntry` that answers one interrupt, in its producer's style."""
    reply_to = answer.reply_to if isinstance(answer.reply_to, dict) else {}
    if reply_to.get("style") == input_requests.STYLE:
        return input_requests.encode(answer, reply_to)
    payload = _STYLES[reply_to.get("style", "approval")](answer, reply_to)
    return {"interruptId": reply_to.get("interruptId") or answer.source_id, "status": "resolved", "payload": payload}


def encode_all(answers: Sequence[ApprovalAnswer]) -> list[dict[str, Any]]:
    """Return one `resume` array for all approvals of a run."""
    entries: dict[str, dict[str, Any]] = {}
    for answer in sorted(answers, key=_get_place):
        entry = encode(answer)
        first = entries.setdefault(entry["interruptId"], entry)
        if first is not entry and _get_style(answer) == "langgraph-batch":
            first["payload"]["decisions"] += entry["payload"]["decisions"]
    return list(entries.values())


def _get_style(answer: ApprovalAnswer) -> str:
    return str(answer.reply_to.get("style", "")) if isinstance(answer.reply_to, dict) else ""


def _get_place(answer: ApprovalAnswer) -> int:
    reply_to = answer.reply_to
    return int(reply_to.get("place", 0)) if isinstance(reply_to, dict) else 0


def _read_langchain(raw: Any, interrupt_id: str) -> list[f.ApprovalRequested] | None:
    """Return the approval requests of a LangChain `HITLRequest`; None for other values."""
    if not isinstance(raw, dict):
        return None
    if isinstance(raw.get("action_requests"), list):
        return list(_read_batch(raw["action_requests"], interrupt_id))
    if not isinstance(raw.get("tool_call_id"), str):
        return None
    reply_to = {"interruptId": interrupt_id, "style": "langgraph", "tool": _get_text(raw.get("name"))}
    reason = _get_text(raw.get("description"))
    return [f.ApprovalRequested(raw["tool_call_id"], interrupt_id, reason=reason, reply_to=reply_to)]


def _read_batch(actions: list[Any], interrupt_id: str) -> Iterator[f.ApprovalRequested]:
    tool_actions = [action for action in actions if isinstance(action, dict) and isinstance(action.get("name"), str)]
    for index, action in enumerate(tool_actions):
        reply_to = {
            "interruptId": interrupt_id, "style": "langgraph-batch", "tool": action["name"],
            "place": index, "of": len(tool_actions),
        }  # fmt: skip
        yield f.ApprovalRequested(
            "", f"{interrupt_id}#{index}" if interrupt_id else "", reason=_get_text(action.get("description")),
            reply_to=reply_to, tool=action["name"], input=action.get("args", action.get("arguments")),
        )  # fmt: skip


def _build_payload(answer: ApprovalAnswer, reply_to: dict[str, Any]) -> dict[str, Any]:
    payload = _build_bare_payload(answer, reply_to)
    if answer.reason and not answer.approved:
        payload["reason"] = answer.reason
    return payload


def _build_bare_payload(answer: ApprovalAnswer, reply_to: dict[str, Any]) -> dict[str, Any]:
    """Return the payload that TanStack's schema accepts; a denial has no reason."""
    payload: dict[str, Any] = {"approved": answer.approved}
    if answer.approved and answer.edited_input is not None:
        payload["editedArgs"] = answer.edited_input
    return payload


def _build_decision(answer: ApprovalAnswer, reply_to: dict[str, Any]) -> dict[str, Any]:
    if not answer.approved:
        return {"type": "reject"} | ({"message": answer.reason} if answer.reason else {})
    if answer.edited_input is not None:
        action = {"name": reply_to.get("tool", ""), "args": answer.edited_input}
        return {"type": "edit", "edited_action": action}
    return {"type": "approve"}


_STYLES: dict[str, Any] = {
    "approval": _build_payload,
    "tanstack": _build_bare_payload,
    "langgraph": _build_decision,
    "langgraph-batch": lambda answer, reply_to: {"decisions": [_build_decision(answer, reply_to)]},
}


def _parse_time(moment: str | None) -> float:
    if not moment:
        return 0.0
    try:
        parsed_time = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0
    return (parsed_time if parsed_time.tzinfo else parsed_time.replace(tzinfo=UTC)).timestamp()


def _get_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
