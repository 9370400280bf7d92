"""Models of answers: what a server really answers fits them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.openapi import is_valid
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.policy.language.presets import PRESETS
from toolcards.models import Approval, Run, ToolCall
from toolcards.transports.api import read_api


def test_the_presets_fit_the_schema_of_policies() -> None:
    assert {name: is_valid("Policy", pack.document) for name, pack in PRESETS.items()} == {name: [] for name in PRESETS}
    assert is_valid("Policy", {"v": 1, "default": "maybe"})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "state",
    [
        "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
        "output-error", "output-denied",
    ],
)  # fmt: skip
def test_real_calls_runs_and_approvals_fit_their_schemas(a_call: Any, state: str) -> None:
    a_call(state)
    row = ToolCall.objects.select_related("run__source").get()
    assert is_valid("Call", build_call_json(row.as_card(), run=row.run.name, id=row.public_id)) == []
    assert is_valid("Run", read_api.serialize_run(Run.objects.select_related("source").get())) == []
    for approval in Approval.objects.select_related("run__source", "call"):
        assert is_valid("Approval", read_api.serialize_approval(approval, row.as_card())) == []


@pytest.mark.django_db(transaction=True)
def test_the_answers_of_a_server_fit_their_schemas(server: Any) -> None:
    def send(method: str, path: str, body: Any = "", **headers: str) -> Any:
        status, answer, _ = server.request(method, path, body, **headers)
        assert status in (200, 404), answer
        return answer

    frames = '{"type":"tool.input.available","call_id":"c","tool":"ls","input":{}}\n{broken\n'
    ingest = "/api/v1/ingest?protocol=native&run=r&mode=gate"
    decision = send("POST", "/api/v1/calls/decide", {"run": "r", "call_id": "d", "tool": "ls", "args": {}})
    claim = {"call_id": "d", "args_sha256": decision["args_sha256"]}
    answers = {
        "Receipt": send("POST", ingest, frames, Content_Type="application/x-ndjson"),
        "Decision": decision,
        "Claim": send("POST", f"/api/v1/permits/{decision['permit']['id']}/claim", claim),
        "RecordedResult": send("POST", "/api/v1/calls/d/result", {"run": "r", "outcome": "ok"}),
        "Heartbeat": send("POST", "/api/v1/runs/r/beat"),
        "CallPage": send("GET", "/api/v1/runs/r/calls"),
        "RunEnd": send("POST", "/api/v1/runs/r/end"),
        "RunPage": send("GET", "/api/v1/runs"),
        "ApprovalPage": send("GET", "/api/v1/approvals"),
        "Error": send("GET", "/api/v1/runs/none"),
        "Health": send("GET", "/healthz"),
    }  # fmt: skip
    assert {name: is_valid(name, answer) for name, answer in answers.items()} == {name: [] for name in answers}
