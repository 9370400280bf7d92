"""AG-UI interrupts that ask a person for a value: the form in the inbox, and the answer for the next run's `resume`.

Source: AG-UI 1.0, whose reason for them is `input_required`, and `responseSchema` is the JSON Schema of the payload.
Other reasons count as well if the interrupt has a schema and concerns no tool call. A schema of an object is the form;
any other value is one field, and no schema a text. `cancelled` means that no value was given. `ag-ui-langgraph` 0.0.47
takes reason, message and schema from the value of LangGraph's `interrupt()`. Pydantic AI 2.68 and TanStack AI 0.58 ask
for approvals only.
"""

from __future__ import annotations

from typing import Any

from toolcards.adapters.base import ApprovalAnswer
from toolcards.core.calls import elicitation
from toolcards.core.calls import facts as f
from toolcards.core.calls.questions import ANSWERS

REASON, STYLE = "input_required", "form"
FIELD = "answer"  # of a value that is no object
REQUEST = "The agent asks for input."


def asks_for_input(reason: str, call_id: str | None, schema: Any) -> bool:
    """Return whether an interrupt asks for a value rather than an approval."""
    return reason == REASON or (not call_id and isinstance(schema, dict))


def read_request(
    interrupt_id: str, run_id: str, message: str | None, schema: Any, *, is_langgraph: bool = False
) -> f.ApprovalRequested | None:
    """Return the question; None if its form cannot be shown.

    Then only the client can answer.
    """
    is_object = isinstance(schema, dict) and (schema.get("type") == "object" or "properties" in schema)
    form = {
        elicitation.MESSAGE: message or REQUEST,
        elicitation.SCHEMA: schema if is_object else _wrap(schema),
    }
    if elicitation.read_fields(form) is None:
        return None
    reply_to = {"interruptId": interrupt_id, "style": STYLE, "is_object": is_object, "langgraph": is_langgraph}
    return f.ApprovalRequested(
        f"{run_id}:{interrupt_id}" if run_id else interrupt_id,  # agents reuse ids of interrupts in later runs
        interrupt_id, reply_to=reply_to, tool=elicitation.TOOL, input=form,
    )  # fmt: skip


def is_form(reply_to: Any) -> bool:
    """Return whether an approval is a question for a value."""
    return isinstance(reply_to, dict) and reply_to.get("style") == STYLE


def add_payload(form: Any, payload: Any, reply_to: Any) -> dict[str, Any]:
    """Return the form's input with the payload of an answer."""
    is_object = bool(reply_to.get("is_object")) and isinstance(payload, dict)
    return {**(form if isinstance(form, dict) else {}), ANSWERS: payload if is_object else {FIELD: payload}}


def read_payload(value: Any, reply_to: Any) -> Any:
    """Return the payload for the answered input of a form."""
    answers = value.get(ANSWERS) if isinstance(value, dict) else None
    answers = answers if isinstance(answers, dict) else {}
    return answers if reply_to.get("is_object") else answers.get(FIELD)


def encode(answer: ApprovalAnswer, reply_to: dict[str, Any]) -> dict[str, Any]:
    """Return the `ResumeEntry` of a question; a denial has no payload."""
    entry = {"interruptId": reply_to.get("interruptId") or answer.source_id}
    if not answer.approved:
        return entry | {"status": "cancelled"}
    return entry | {"status": "resolved", "payload": read_payload(answer.edited_input, reply_to)}


def _wrap(schema: Any) -> dict[str, Any]:
    """Return the form for a single value; without a schema a text."""
    value_schema = {"type": "string", "minLength": 1} if schema is None else schema
    if not isinstance(value_schema, dict):  # no schema of JSON Schema's draft that a form could show
        return {"properties": {FIELD: None}}
    definitions = {"$defs": value_schema["$defs"]} if isinstance(value_schema.get("$defs"), dict) else {}
    properties = {FIELD: {"title": "Answer"} | value_schema}
    return {"type": "object", "properties": properties, "required": [FIELD], **definitions}
