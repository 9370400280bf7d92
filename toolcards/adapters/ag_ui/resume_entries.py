"""The answers of an AG-UI request to the interrupts of the previous run, and its results of client-side tools.

A `RunAgentInput` carries `resume[]`, and to LangGraph also `forwardedProps.command.resume`; payloads are as
`interrupts` encodes them. Source: AG-UI 1.0, and `ag-ui-langgraph` 0.0.47, which refuses several entries in
`resume[]` and takes them by their ids in `forwardedProps.command.resume`. No event reports the result of a tool that
runs in the client: the client adds a tool message to `messages` of its next request (AG-UI 1.0, tool rendering).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from toolcards.adapters import strict
from toolcards.adapters.ag_ui import input_requests
from toolcards.adapters.base import Facts
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_end import MOVED_ON

_APPROVING = frozenset({"approve", "edit", "respond", "accept"})
_DENYING = frozenset({"reject", "ignore"})
_TANSTACK_ANSWERS = frozenset({"User approved this action", "User denied this action"})  # in place of a result
GIVEN_UP = {"__agui_cancelled__": True}  # LangGraph's payload of a cancelled entry, where there are several
CANCELLED_REASON = "Canceled where the agent runs."
CANCELLED = object()  # in place of the payload of an entry that was cancelled
_CALL_PREFIX = "approval_"  # prefix of the ids of TanStack AI's interrupts; the call id follows


# Questions for values by the interrupt's id: input and `reply_to`, None where a person has answered.
Forms = Mapping[str, tuple[Any, Any] | None]


def read_answers(request: dict[str, Any], batch: list[str] | None = None, forms: Forms | None = None) -> Facts:
    """Return a request's answers.

    `batch`: approval ids for decisions without ids; `forms`: the questions for values that wait.
    """
    forms = forms or {}
    return [
        fact
        for source_id, payload in _list_entries(request, batch or [], forms)
        if (fact := _read_form(payload, forms[source_id]) if source_id in forms else _read_answer(source_id, payload))
    ]


def read_request(request: dict[str, Any], batch: list[str] | None = None, forms: Forms | None = None) -> Facts:
    """Return a request's answers and its results of client-side tools.

    Calls that its user passed over end.
    """
    passed_over = [] if request.get("resume") else list_passed_over(_as_list(request.get("messages")))
    return [*read_answers(request, batch, forms), *_read_results(request), *passed_over]


def list_passed_over(messages: list[Any]) -> Facts:
    """Return the end of each unanswered call that the user passed over."""
    open_calls: dict[str, None] = {}
    ends: Facts = []
    for message in map(_as_dict, messages):
        if message.get("role") == "assistant":
            calls = (_as_dict(call).get("id") for call in _as_list(get_member(message, "toolCalls")))
            open_calls |= {call: None for call in calls if isinstance(call, str) and call}
        elif message.get("role") == "tool":
            open_calls.pop(str(get_member(message, "toolCallId")), None)
        elif message.get("role") == "user":
            ends += [f.CallClosed(call, "superseded", reason=MOVED_ON) for call in open_calls]
            open_calls = {}
    return ends


def _read_form(payload: Any, form: tuple[Any, Any] | None) -> f.ApprovalAnswered | None:
    """Return the client's answer to a question for a value, whatever the value says."""
    if form is None:
        return None
    value, reply_to = form
    source_id = str(reply_to.get("interruptId"))
    if payload is CANCELLED:
        return f.ApprovalAnswered("", False, source_id, reason=CANCELLED_REASON)
    return f.ApprovalAnswered(
        "", True, source_id, input=input_requests.add_payload(value, payload, reply_to), has_input=True
    )


def _read_results(request: dict[str, Any]) -> Facts:
    """Return the results after the last message of the agent: earlier ones are history."""
    results: Facts = []
    for message in reversed(_as_list(request.get("messages"))):
        if _as_dict(message).get("role") == "assistant":
            break
        call_id, content, error = (get_member(_as_dict(message), name) for name in ("toolCallId", "content", "error"))
        if _as_dict(message).get("role") == "tool" and isinstance(call_id, str) and call_id:
            output = strict.parse_or_keep(content) if isinstance(content, str) else content
            if _as_dict(output).get("message") in _TANSTACK_ANSWERS:
                continue  # an answer, which `resume` gives, too
            results.insert(0, f.SnapshotReceived(call_id, output, error if isinstance(error, str) else None))
    return results


def add_entries(
    request: dict[str, Any], entries: list[dict[str, Any]], *, is_langgraph: bool = False
) -> dict[str, Any]:
    """Return the request with these entries in place of its own.

    `is_langgraph`: they answer interrupts of LangGraph.
    """
    if not entries:
        return request
    replaced_ids = {entry["interruptId"] for entry in entries}
    entries_before = _as_list(request.get("resume"))
    other_entries = [
        entry for entry in entries_before if get_member(_as_dict(entry), "interruptId") not in replaced_ids
    ]
    payloads = [_as_dict(entry.get("payload")) for entry in entries]
    if len(payloads) == 1 and _is_batch(payloads[0]):
        return _add_command(request, payloads[0])
    is_by_command = is_langgraph or all("type" in payload for payload in payloads)
    if is_by_command and len(payloads) > 1 and not other_entries:
        return _add_command(request, {entry["interruptId"]: entry.get("payload", GIVEN_UP) for entry in entries})
    return request | {"resume": [*other_entries, *entries]}


def _is_batch(payload: dict[str, Any]) -> bool:
    """Return whether the payload holds LangChain's decisions; a form may have a field of that name."""
    decisions = payload.get("decisions")
    return isinstance(decisions, list) and bool(decisions) and all(isinstance(each, dict) for each in decisions)


def _add_command(request: dict[str, Any], resume: dict[str, Any]) -> dict[str, Any]:
    """Add the answer as LangGraph's command; both forms together would count as two answers."""
    forwarded_props = _as_dict(request.get("forwardedProps"))
    command = _as_dict(forwarded_props.get("command")) | {"resume": resume}
    remaining = {name: value for name, value in request.items() if name != "resume"}
    return remaining | {"forwardedProps": forwarded_props | {"command": command}}


def _list_entries(request: dict[str, Any], batch: list[str], forms: Forms) -> Iterator[tuple[str, Any]]:
    for entry in _as_list(request.get("resume")):
        entry_data = _as_dict(entry)
        source_id, payload = get_member(entry_data, "interruptId"), entry_data.get("payload")
        if isinstance(source_id, str) and source_id:
            payload = CANCELLED if entry_data.get("status") == "cancelled" else payload
            yield from [(source_id, payload)] if source_id in forms else _split_batch(source_id, payload, [])
    command = _as_dict(_as_dict(get_member(request, "forwardedProps")).get("command")).get("resume")
    if command is not None and len(forms) == 1 and not forms.keys() & _as_dict(command).keys() and not batch:
        yield next(iter(forms)), command  # LangGraph: the value itself answers the only question
    elif isinstance(command, dict) and isinstance(command.get("decisions"), list):
        yield from _split_batch("", command, batch)
    elif isinstance(command, dict):
        for source_id, payload in command.items():
            yield from [(source_id, payload)] if source_id in forms else _split_batch(source_id, payload, [])


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
    is_cancelled = payload is CANCELLED or payload is False
    if is_cancelled and source_id.startswith(_CALL_PREFIX):  # TanStack AI: neither approved nor denied
        return f.CallClosed(source_id.removeprefix(_CALL_PREFIX), "cancelled", reason=CANCELLED_REASON)
    if is_cancelled:
        return f.ApprovalAnswered("", False, source_id, reason=CANCELLED_REASON)
    response = _as_dict(payload)
    is_approved, kind = response.get("approved"), response.get("type")
    if not isinstance(is_approved, bool):
        if kind not in _APPROVING | _DENYING:
            return None
        is_approved = kind in _APPROVING
    reason = response.get("reason") or response.get("message") or ""
    edited_input = response.get("editedArgs", _as_dict(response.get("edited_action")).get("args"))
    return f.ApprovalAnswered(
        "", is_approved, source_id, reason=reason if isinstance(reason, str) else "",
        input=edited_input, has_input=is_approved and edited_input is not None,
    )  # fmt: skip


def get_member(message: dict[str, Any], name: str) -> Any:
    """Return a member by its camel-case or snake-case name."""
    return message.get(name, message.get(to_snake(name)))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
