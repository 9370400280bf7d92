"""The gate's HTTP API for agents: decide, approval, claim, result, withdraw, heartbeat and end."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from toolcards import feed, gate
from toolcards.adapters import strict
from toolcards.core.policy.places.project import check_folder
from toolcards.models import Approval, decode_run_name
from toolcards.transports import shutdown
from toolcards.transports.agents.exposed_keys import note_exposed_keys
from toolcards.transports.agents.frame_intake import check_run_name
from toolcards.transports.api.api_errors import Problem, build_not_found
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.background.connections import wait_while_allowed

MAX_WAIT = 60.0  # seconds
READABLE_DEPTH = 200  # of the body of a result, so that one beyond the limits can be written down as that
Attempt = Annotated[int, Field(ge=1, lt=2**31)]  # as databases count
Digest = Annotated[str, Field(max_length=64, pattern=r"^[0-9A-Za-z:_.+/=-]*$")]


class Body(BaseModel):
    """What every request may carry; unknown fields pass, so that newer clients are understood."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    v: int = 1
    run: str = ""
    run_id: str = ""

    @property
    def run_name(self) -> str:
        """The run, as its sender names it; raises Problem."""
        name = self.run or self.run_id
        if not name:
            raise Problem(422, "invalid_args", "run: Field required", pointer="/run")
        return check_run_name(name)


class AskedTool(BaseModel):
    """The tool that would run."""

    model_config = ConfigDict(strict=True)
    name: str = Field(min_length=1, max_length=300)
    source: str = ""
    schema_sha256: Digest = ""
    title: str = ""
    kind: str = ""


class Labels(BaseModel):
    """What the agent reports about its environment, for rules."""

    model_config = ConfigDict(strict=True)
    env: str = ""


class DecideBody(Body):
    """The body of `decide`: the call to judge."""

    idempotency_key: str = Field("", max_length=300)
    call_id: str = Field(min_length=1)
    attempt: Attempt | None = None
    agent_path: list[str] = Field(default_factory=list, max_length=32)
    tool: AskedTool | Annotated[str, Field(min_length=1, max_length=300)]
    args: Any = Field(default_factory=dict)
    args_sha256: str = ""
    labels: Labels = Labels()
    agent_note: str = ""
    can_wait: bool = True
    wait_ms: int = Field(0, ge=0)
    tools: list[dict[str, Any]] = Field(default_factory=list, max_length=500)
    root: Annotated[str, AfterValidator(check_folder)] = ""
    place: str = Field("", max_length=200)
    asks_again_after: float = Field(0, ge=0, le=86_400)


class ClaimBody(BaseModel):
    """The body of `claim`: the call that uses the permit."""

    model_config = ConfigDict(strict=True)
    call_id: str
    args_sha256: str
    call_sha256: str | None = None
    attempt: Attempt | None = None
    tool: AskedTool | Annotated[str, Field(min_length=1, max_length=300)] | None = None
    schema_sha256: str = ""
    claim_id: str = Field("", max_length=100)

    @property
    def call_fields(self) -> dict[str, Any]:
        """The fields of the call that the claim names, for gate.aclaim_permit."""
        tool = AskedTool(name=self.tool) if isinstance(self.tool, str) else self.tool
        source = tool.source if tool is self.tool and tool and "source" in tool.model_fields_set else None
        return {
            "call_id": self.call_id, "args_sha256": self.args_sha256.lower(), "attempt": self.attempt,
            "call_sha256": self.call_sha256.lower() if self.call_sha256 else None, "tool": tool.name if tool else None,
            "tool_source": source, "schema_sha256": self.schema_sha256,
        }  # fmt: skip


class ResultError(BaseModel):
    """How the call failed."""

    model_config = ConfigDict(strict=True)
    message: str = ""
    code: str | None = None
    retryable: bool | None = None
    authority: Literal["tool", "runtime", "plugin"] | None = None
    phase: str | None = None
    after_ms: Annotated[int, Field(ge=0, lt=2**53)] | None = None


class ResultBody(Body):
    """The body of `result`: how the call ended."""

    attempt: Attempt = 1
    outcome: Literal["ok", "error", "aborted", "unknown"]
    error: ResultError | None = None
    output: Any = None
    output_preview: str | None = None
    output_sha256: str = ""
    duration_ms: float = Field(0, ge=0)
    side_effects: Literal["none", "possible", "confirmed"] | None = None


class WithdrawBody(Body):
    """The body of `withdraw`, which is optional: whether the agent's own time limit has passed."""

    timed_out: bool = False


class EndBody(Body):
    """The body of `end`: how the run ended."""

    outcome: Literal["success", "aborted", "error", "truncated"] = "success"
    reason: str = Field("", max_length=2000)


@endpoint("POST", "decide")
async def decide(request: Any, caller: Caller) -> Any:
    """Decide on a call before it runs.

    Wait up to `wait_ms` for a person.
    """
    body = _parse_body(request, DecideBody)
    note_exposed_keys(request.body.decode(), body.run_name)
    if len(request.body) > settings.TOOLCARDS.max_args and len(encode_json(body.args)) > settings.TOOLCARDS.max_args:
        raise Problem(413, "too_large", f"Arguments must have at most {settings.TOOLCARDS.max_args} bytes.")
    tool = body.tool if isinstance(body.tool, AskedTool) else AskedTool(name=body.tool)
    decision_request = gate.DecisionRequest(
        run=body.run_name, call_id=body.call_id, tool=tool.name, args=body.args, attempt=body.attempt,
        agent_path=tuple(body.agent_path), tool_source=tool.source, schema_sha256=tool.schema_sha256,
        args_sha256=body.args_sha256, env=body.labels.env, note=body.agent_note, can_wait=body.can_wait,
        idempotency_key=body.idempotency_key, kind=tool.kind, title=tool.title, tools=tuple(body.tools),
        root=body.root, place=body.place, asks_again_after=body.asks_again_after, key=caller.key,
    )  # fmt: skip
    decision = await gate.adecide(caller.agent, decision_request)
    if decision["decision"] != "ask" or not decision["approval"] or not body.wait_ms:
        return decision
    return await _await_decision(caller, decision["approval"]["id"], min(body.wait_ms / 1000, MAX_WAIT))


@endpoint("GET", "decide")
async def approval(request: Any, caller: Caller, approval: str) -> Any:
    """Return the decision object.

    With `wait`, wait so many seconds for a person.
    """
    seconds = _parse_wait(request.GET.get("wait", "0"))
    if not seconds:
        return await gate.aget_decision(caller.agent, approval)
    try:
        return await _await_decision(caller, approval, seconds)
    except Approval.DoesNotExist:
        raise build_not_found() from None


async def _await_decision(caller: Caller, approval: str, seconds: float) -> dict[str, Any]:
    """Return the decision object once it is answered, or the current one after `seconds`.

    Raises Approval.DoesNotExist, and Problem once the key is revoked.
    """
    with gate.expect_decision(caller.agent, approval) as expected_decision:
        answer = asyncio.ensure_future(feed.wait_for_answer(approval, seconds, source=caller.agent.pk))
        try:
            either: set[asyncio.Future[Any]] = {answer, expected_decision}
            await shutdown.wait_unless_stopping(wait_while_allowed(caller, either))
        finally:
            answer.cancel()
        if expected_decision.done():
            return expected_decision.result()
    if answer.done():
        answer.result()
    return await gate.aget_decision(caller.agent, approval)


@endpoint("POST", "decide")
async def claim(request: Any, caller: Caller, permit: str) -> Any:
    """Use up a permit, right before the call runs."""
    body = _parse_body(request, ClaimBody)
    return await gate.aclaim_permit(
        caller.agent, permit, body.call_fields, _identify_client(request, caller, body.claim_id)
    )


@endpoint("POST", "result")
async def result(request: Any, caller: Caller, call_id: str) -> Any:
    """Record the result of a call; a repeated request changes nothing."""
    body = _parse_body(request, ResultBody, READABLE_DEPTH)
    note_exposed_keys(request.body.decode(), body.run_name)
    result_fields = body.model_dump(exclude_unset=True, exclude_none=True)
    return await gate.arecord_result(caller.agent, body.run_name, call_id, _limit_result(result_fields))


@endpoint("POST", "decide")
async def withdraw(request: Any, caller: Caller, approval: str) -> Any:
    """Withdraw an approval request."""
    body = _parse_body(request, WithdrawBody) if request.body.strip() else WithdrawBody()
    return await gate.awithdraw_approval(caller.agent, approval, timed_out=body.timed_out)


@endpoint("POST", "ingest", "decide")
async def beat(request: Any, caller: Caller, run: str) -> Any:
    """Record a heartbeat of the agent."""
    return await gate.arecord_heartbeat(caller.agent, decode_run_name(run))


@endpoint("POST", "ingest", "decide")
async def end(request: Any, caller: Caller, run: str) -> Any:
    """End the run."""
    body = _parse_body(request, EndBody) if request.body.strip() else EndBody()
    return await gate.aend_run(caller.agent, decode_run_name(run), body.outcome, body.reason)


def _identify_client(request: Any, caller: Caller, claim_id: str) -> str:
    """Return the id of the claiming client, "" if unknown.

    It is the key with the client's own id of this claim, else with its connection.
    """
    port = request.META.get("REMOTE_PORT")
    if not claim_id and not port:
        return ""
    return f"{caller.key} " + (f"id {claim_id}" if claim_id else f"at {request.META.get('REMOTE_ADDR')}:{port}")


def encode_json(value: Any) -> bytes:
    """Return the value as compact UTF-8 JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _limit_result(result_fields: dict[str, Any]) -> dict[str, Any]:
    """Return the result; an error if its output exceeds the limits."""
    limits, output = settings.TOOLCARDS, result_fields.get("output", result_fields.get("output_preview"))
    if result_fields["outcome"] != "ok":
        return result_fields
    if strict.is_deeper_than(output, limits.max_depth):
        why = f"The result is nested deeper than {limits.max_depth} levels."
    elif len(encode_json(output)) > limits.max_frame:
        why = f"The result has more than {limits.max_frame} bytes."
    else:
        return result_fields
    return result_fields | {"outcome": "error", "output": None, "error": {"code": "bad_output", "message": why}}


def _parse_body(request: Any, model: Any, depth: int = 0) -> Any:
    """Return the validated body; raises BadFrame for invalid JSON, Problem 422 for another shape."""
    try:
        text = request.body.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "not_json", "The body is not UTF-8.") from None
    value = strict.loads(text, depth or settings.TOOLCARDS.max_depth + 1)
    if not isinstance(value, dict):
        raise Problem(400, "not_object", "The body must be one JSON object.")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = [str(part) for part in first_error["loc"]]
    raise Problem(422, "invalid_args", f"{'.'.join(where)}: {first_error['msg']}", pointer="/" + "/".join(where))


def _parse_wait(text: str) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise Problem(400, "bad_wait", "wait must be a number of seconds.")
    return min(seconds, MAX_WAIT)
