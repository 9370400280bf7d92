"""The answers of an AG-UI request to the interrupts of the previous run, and its results of client-side tools.

A `RunAgentInput` carries `resume[]`, and to LangGraph also `forwardedProps.command.resume`; payloads are as
`interrupts` encodes them. Source: AG-UI 1.0, and `ag-ui-langgraph` 0.0.47, which refuses several entries in
`resume[]` and takes them by their ids in `forwardedProps.command.resume`. No event reports the result of a tool that
runs in the client: the client adds a tool message to `messages` of its next request (AG-UI 1.0, tool rendering).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import Facts
from toolcards.core.calls import facts as f

_APPROVING = frozenset({"approve", "edit", "respond", "accept"})
_DENYING = frozenset({"reject", "ignore"})
_TANSTACK_ANSWERS = frozenset({"User approved this action", "User denied this action"})  # in place of a result
_CALL_PREFIX = "approval_"  # prefix of the ids of TanStack AI's interrupts; the call id follows


def read_answers(request: dict[str, Any], batch: list[str] | None = None) -> Facts:
    """Return a request's answers; `batch`: approval ids for decisions without ids."""
    return [
        fact for source_id, payload in _list_entries(request, batch or []) if (fact := _read_answer(source_id, payload))
    ]


def read_request(request: dict[str, Any], batch: list[str] | None = None) -> Facts:
    """Return a request's answers and its results of client-side tools."""
    return [*read_answers(request, batch), *_read_results(request)]


def _read_results(request: dict[str, Any]) -> Facts:
    """Return the results after the last message of the agent: earlier ones are history."""
    results: Facts = []
    for message in reversed(_as_list(request.get("messages"))):
        if _as_dict(message).get("role") == "assistant":
            break
        call_id, content, error = (_as_dict(message).get(name) for name in ("toolCallId", "content", "error"))
        if _as_dict(message).get("role") == "tool" and isinstance(call_id, str) and call_id:
            output = strict.parse_or_keep(content) if isinstance(content, str) else content
            if _as_dict(output).get("message") in _TANSTACK_ANSWERS:
                continue  # an answer, which `resume` gives, too
            results.insert(0, f.SnapshotReceived(call_id, output, error if isinstance(error, str) else None))
    return results


def add_entries(request: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the request with these entries in place of its own."""
    if not entries:
        return request
    replaced_ids = {entry["interruptId"] for entry in entries}
    entries_before = _as_list(request.get("resume"))
    other_entries = [entry for entry in entries_before if _as_dict(entry).get("interruptId") not in replaced_ids]
    payloads = [_as_dict(entry.get("payload")) for entry in entries]
    if all("decisions" in payload for payload in payloads) and len(payloads) == 1:
        return _add_command(request, payloads[0])
    if all("type" in payload for payload in payloads) and len(payloads) > 1 and not other_entries:
        return _add_command(request, {entry["interruptId"]: entry["payload"] for entry in entries})
    return request | {"resume": [*other_entries, *entries]}


def _add_command(request: dict[str, Any], resume: dict[str, Any]) -> dict[str, Any]:
    """Add the answer as LangGraph's command; both forms together would count as two answers."""
    forwarded = _as_dict(request.get("forwardedProps"))
    command = _as_dict(forwarded.get("command")) | {"resume": resume}
    remaining = {name: value for name, value in request.items() if name != "resume"}
    return remaining | {"forwardedProps": forwarded | {"command": command}}


def _list_entries(request: dict[str, Any], batch: list[str]) -> Iterator[tuple[str, Any]]:
    for entry in _as_list(request.get("resume")):
        entry_data = _as_dict(entry)
        source_id, payload = entry_data.get("interruptId"), entry_data.get("payload")
        if isinstance(source_id, str) and source_id:
            yield from _split_batch(source_id, False if entry_data.get("status") == "cancelled" else payload, [])
    command = _as_dict(_as_dict(request.get("forwardedProps")).get("command")).get("resume")
    if isinstance(command, dict) and isinstance(command.get("decisions"), list):
        yield from _split_batch("", command, batch)
    elif isinstance(command, dict):
        for source_id, payload in command.items():
            yield from _split_batch(source_id, payload, [])


def _split_batch(source_id: str, payload: Any, batch: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each decision of an entry; one entry may hold those of a batch, in order."""
    decisions = _as_dict(payload).get("decisions")
    if not isinstance(decisions, list):
        yield source_id, payload
        return
    for index, decision in enumerate(decisions):
        approval_id = f"{source_id}#{index}" if source_id else (batch[index] if index < len(batch) else "")
        if approval_id:
            yield approval_id, decision


def _read_answer(source_id: str, payload: Any) -> f.ApprovalAnswered | f.CallClosed | None:
    """Return the answer in a payload; None if it neither approves nor denies."""
    if payload is False and source_id.startswith(_CALL_PREFIX):  # TanStack AI: neither approved nor denied
        return f.CallClosed(source_id.removeprefix(_CALL_PREFIX), "cancelled", reason="Cancelled where the agent runs.")
    if payload is False:
        return f.ApprovalAnswered("", False, source_id, reason="Cancelled where the agent runs.")
    response = _as_dict(payload)
    approved, kind = response.get("approved"), response.get("type")
    if not isinstance(approved, bool):
        if kind not in _APPROVING | _DENYING:
            return None
        approved = kind in _APPROVING
    reason = response.get("reason") or response.get("message") or ""
    edited_input = response.get("editedArgs", _as_dict(response.get("edited_action")).get("args"))
    return f.ApprovalAnswered(
        "", approved, source_id, reason=reason if isinstance(reason, str) else "",
        input=edited_input, has_input=approved and edited_input is not None,
    )  # fmt: skip


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
