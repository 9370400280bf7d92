"""The API as an OpenAPI 3.1 document, from its routes, its request models and its answer models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeGuard

from django.conf import settings
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import toolcards
from dashboard.help import answers, gate_answers
from toolcards.adapters import ADAPTERS
from toolcards.core.policy.language import document as policy_documents
from toolcards.models import EVERY_SCOPE
from toolcards.models.people import TOKEN_SCOPES
from toolcards.transports.agents import gate_api
from toolcards.transports.urls import ROUTES


@dataclass(frozen=True)
class Parameter:
    """A query or header parameter."""

    name: str
    schema: dict[str, Any]
    description: str
    place: str = "query"


_TEXT = {"type": "string"}
CURSOR = Parameter("cursor", _TEXT, "`next` of the previous page")
LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": 200}, "entries on a page")
SOURCE = Parameter("source", _TEXT, "only runs of this source")
STATUS = Parameter("status", {"$ref": "#/components/schemas/RunStatus"}, "only runs of this status")
AGENT = Parameter("agent", _TEXT, "the name of the agent")
STATE = Parameter("state", _TEXT, "only entries in this state")
WAIT = Parameter("wait", {"type": "number", "minimum": 0}, "seconds to wait for an answer, at most 60")
PROTOCOL = Parameter("protocol", {"enum": sorted(ADAPTERS)}, "how the frames are written")
RUN = Parameter("run", {"type": "string", "maxLength": 200}, "the run that the frames belong to")
MODE = Parameter("mode", {"enum": ["gate", "observe"]}, "whether calls are judged")
ANSWERS = Parameter("answers", {"enum": ["poll"]}, "the sender polls for answers to the agent's own questions")
HOOK_LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": 86400}, "seconds that a hook may be held")
ECHO_REQUEST = Parameter("bound", {"enum": ["1"]}, "the answer also names the request and the call that it is about")
LAST_EVENT = Parameter("Last-Event-ID", {"type": "integer", "minimum": 0}, "where the stream begins", "header")
KEY = Parameter("Idempotency-Key", {"type": "string", "maxLength": 200}, "applies the body once", "header")
PROGRAM = Parameter("program", _TEXT, "the agent program whose tools are called")
STREAM = Parameter("stream", {"type": "string", "maxLength": 64}, "the stream that the frames' numbers belong to")
_PAGE = (CURSOR, LIMIT)
_HOOK = (HOOK_LIMIT, AGENT, PROGRAM, ECHO_REQUEST)
EVENTS = {"text/event-stream": _TEXT, "application/json": {"type": "object"}}
FRAMES: dict[str, dict[str, Any]] = {
    "application/x-ndjson": _TEXT, "text/event-stream": _TEXT, "application/json": {"type": ["object", "array"]},
}  # fmt: skip


# A model, a media type, or the schemas by media type.
Content: TypeAlias = type[BaseModel] | str | dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Operation:
    """The parameters and answers of a route, beyond what its view declares."""

    answer: Content
    body: Content | None = None
    parameters: tuple[Parameter, ...] = ()


MACHINES: dict[str, Operation] = {
    "healthz": Operation(answers.Health),
    "readyz": Operation(answers.Readiness),
    "metrics": Operation("text/plain"),
    "api/v1/runs": Operation(answers.RunPage, parameters=(*_PAGE, STATUS, AGENT, SOURCE)),
    "api/v1/runs/<run>": Operation(answers.Run, parameters=(SOURCE,)),
    "api/v1/runs/<run>/calls": Operation(answers.CallPage, parameters=(*_PAGE, STATE, SOURCE)),
    "api/v1/runs/<run>/events": Operation(EVENTS, parameters=(*_PAGE, SOURCE, LAST_EVENT)),
    "api/v1/runs/<run>/beat": Operation(gate_answers.Heartbeat),
    "api/v1/runs/<run>/end": Operation(gate_answers.RunEnd, gate_api.EndBody),
    "api/v1/approvals": Operation(gate_answers.ApprovalPage, parameters=(*_PAGE, STATE, SOURCE)),
    "api/v1/approvals/<approval>": Operation(gate_answers.Decision, parameters=(WAIT,)),
    "api/v1/approvals/<approval>/withdraw": Operation(gate_answers.Decision),
    "api/v1/calls/decide": Operation(gate_answers.Decision, gate_api.DecideBody),
    "api/v1/calls/<call_id>/result": Operation(gate_answers.RecordedResult, gate_api.ResultBody),
    "api/v1/permits/<permit>/claim": Operation(gate_answers.Claim, gate_api.ClaimBody),
    "api/v1/ag-ui/<upstream>": Operation("text/event-stream", "application/json", (RUN,)),
    "api/v1/ag-ui/<upstream>/resume": Operation("application/json", parameters=(RUN, WAIT)),
    "api/v1/hooks/claude-code": Operation("application/json", "application/json", _HOOK),
}
INGEST = "api/v1/ingest"
_INGEST = Operation(gate_answers.Receipt, FRAMES, (PROTOCOL, RUN, AGENT, MODE, ANSWERS, STREAM, KEY))

# Programs of people: a token with its scope, or a session and for everything but GET the CSRF token of a page.
PEOPLE: dict[str, dict[str, str]] = {
    "api/v1/approvals/<pk>/vote": {"post": "Answer a waiting call."},
    "api/v1/approvals/<pk>/undo": {"post": "Revoke an approval that the agent has not received."},
    "api/v1/approvals/votes": {"post": "Answer several waiting calls."},
    "api/v1/audit": {"get": "Return rows of the audit trail, newest first."},
    "api/v1/policy/draft": {"get": "Return the draft.", "put": "Replace the draft."},
    "api/v1/policy/validate": {"post": "Check a policy document."},
    "api/v1/policy/simulate": {"post": "Return what a document would have decided about past calls."},
    "api/v1/policy/activate": {"post": "Make the draft the active policy."},
    "api/v1/policy/versions": {"get": "Return all versions, newest first."},
    "api/v1/grants": {"get": "Return the grants that are active.", "delete": "Revoke the grant named by `id`."},
    "api/v1/grants/<pk>": {"get": "Return the grants that are active.", "delete": "Revoke the grant."},
    "api/v1/killswitch": {"get": "Return whether the kill switch is on.", "post": "Turn the kill switch on or off."},
    "api/v1/breakglass": {"get": "Return whether break-glass is on.", "post": "Turn break-glass on or off."},
}
_VOTES = ("api/v1/approvals/<pk>/vote", "api/v1/approvals/<pk>/undo")
_AUDIT_FILTERS = ("act", "person", "run", "call", "approval", "about", "since", "until")
_PEOPLE_PARAMETERS = {
    "api/v1/audit": (*_PAGE, *(Parameter(name, _TEXT, f"only rows with this {name}") for name in _AUDIT_FILTERS))
}
_BALLOT_TEXTS = ("args_sha256", "view_sha256", "client_decision_id", "reason", "note", "always", "always_deny")
_BALLOT = {
    "type": "object",
    "required": ["rev", "args_sha256"],
    "properties": {
        "decision": {"enum": ["approve", "deny", "edit", "answer"]},
        "rev": {"type": "integer", "minimum": 0},
        **dict.fromkeys(_BALLOT_TEXTS, _TEXT),
        "grant": {"type": ["string", "object"]},
        "edited_args": {},
    },
}  # fmt: skip
_POLICY = {"api/v1/policy/draft": "put", "api/v1/policy/validate": "post"}


@cache
def build_document() -> dict[str, Any]:
    """Return the OpenAPI document, which callers must not change."""
    models: list[type[BaseModel]] = [answers.Error]
    operations = (*MACHINES.values(), _INGEST)
    models += [part for operation in operations for part in (operation.answer, operation.body) if _is_model(part)]
    _, schemas = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)], ref_template="#/components/schemas/{model}"
    )
    policy = policy_documents.build_schema()
    definitions = policy.pop("$defs", {})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolcards", "version": toolcards.__version__, "description": _DESCRIPTION},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": dict(_build_paths()),
        "components": {
            "schemas": {
                **schemas["$defs"], **_prefix_references(definitions), "Policy": _prefix_references(policy),
                "RunStatus": {"enum": list(answers.RunStatus.__args__)},  # type: ignore[attr-defined]
            },
            "securitySchemes": {
                "agentKey": {"type": "http", "scheme": "bearer", "description": f"Scopes: {', '.join(EVERY_SCOPE)}"},
                "personalToken": {
                    "type": "http", "scheme": "bearer", "description": f"Scopes: {', '.join(TOKEN_SCOPES)}",
                },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME, "description": _SESSION,
                },
            },
        },
    }  # fmt: skip


_DESCRIPTION = (
    "The HTTP API of a Toolcards server. Agents use keys, people a personal token or their session. Agents can also"
    " stream frames over a WebSocket at `/ws/agent/`."
)
_SESSION = "A signed-in person. All methods but GET also need the CSRF token of a page, in the header X-CSRFToken"


def _build_paths() -> Iterator[tuple[str, Any]]:
    view: Any  # `endpoint` adds attributes
    for pattern, view in ROUTES.items():
        summary = (view.__doc__ or "").strip().splitlines()[0]
        security: list[dict[str, list[str]]] = [{"agentKey": list(view.scopes)}] if view.scopes else []
        security += [{"personalToken": []}, {"session": []}] if view.people else []
        yield _path(pattern), {view.method.lower(): _describe(pattern, MACHINES[pattern], summary, security)}
    summary = "Store a stream of frames, and answer once it is on disk."
    yield _path(INGEST), {"post": _describe(INGEST, _INGEST, summary, [{"agentKey": ["ingest"]}])}
    for pattern, methods in PEOPLE.items():
        yield _path(pattern), {method: _describe_for_people(pattern, method, text) for method, text in methods.items()}


def _describe(pattern: str, operation: Operation, summary: str, security: list[Any]) -> dict[str, Any]:
    description: dict[str, Any] = {
        "summary": summary, "operationId": _operation_id(pattern), "security": security,
        "parameters": [*_path_parameters(pattern), *map(_describe_parameter, operation.parameters)],
        "responses": _responses(operation.answer),
    }  # fmt: skip
    if operation.body is not None:
        description["requestBody"] = {
            "content": _content(operation.body),
            "required": operation.body is not gate_api.EndBody,
        }
    return description


def _describe_for_people(pattern: str, method: str, summary: str) -> dict[str, Any]:
    description: dict[str, Any] = {
        "summary": summary, "operationId": f"{_operation_id(pattern)}-{method}",
        "security": [{"personalToken": []}, {"session": []}],
        "parameters": [*_path_parameters(pattern), *map(_describe_parameter, _PEOPLE_PARAMETERS.get(pattern, ()))],
        "responses": _responses(gate_answers.Approval if pattern in _VOTES else "application/json"),
    }  # fmt: skip
    if method in ("post", "put"):
        schema: dict[str, Any] = {"type": "object"}
        if _POLICY.get(pattern) == method:
            schema = {"$ref": "#/components/schemas/Policy"}
        elif pattern == "api/v1/approvals/<pk>/vote":
            schema = _BALLOT
        description["requestBody"] = {"content": {"application/json": {"schema": schema}}, "required": True}
    return description


def _responses(answer: Content) -> dict[str, Any]:
    error = {"description": "The request is refused.", "content": _content(answers.Error)}
    return {"200": {"description": "Done.", "content": _content(answer)}, "4XX": error, "5XX": error}


def _content(body: Content) -> dict[str, Any]:
    if isinstance(body, dict):
        return {media_type: {"schema": schema} for media_type, schema in body.items()}
    if isinstance(body, str):
        schema = {"type": "object"} if body == "application/json" else {"type": "string"}
        return {body: {"schema": schema}}
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name, "in": parameter.place, "schema": parameter.schema, "description": parameter.description,
    }  # fmt: skip


def _path_parameters(pattern: str) -> list[dict[str, Any]]:
    names = re.findall(r"<(\w+)>", pattern)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _path(pattern: str) -> str:
    return "/" + re.sub(r"<(\w+)>", r"{\1}", pattern)


def _operation_id(pattern: str) -> str:
    return re.sub(r"\W+", "-", pattern.removeprefix("api/v1/")).strip("-")


def _is_model(part: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _prefix_references(value: Any) -> Any:
    """Return the schema with its references pointing into the components."""
    if isinstance(value, dict):
        return {
            key: inner.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _prefix_references(inner)
            for key, inner in value.items()
        }
    return [_prefix_references(inner) for inner in value] if isinstance(value, list) else value
