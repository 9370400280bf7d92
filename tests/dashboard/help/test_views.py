"""Help pages and the descriptions of the API: complete, true, and harmless to read."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client
from django.urls import reverse

from dashboard import urls
from dashboard.help import views
from dashboard.help.openapi import build_document
from toolcards import gate
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.policy.language.presets import PRESETS
from toolcards.models import Approval, Run, ToolCall
from toolcards.transports.api import read_api
from toolcards.transports.urls import ROUTES

NAMES = [path.stem for path in sorted(views.FOLDER.glob("*.md"))]


def is_valid(name: str, value: Any) -> list[str]:
    """Return what the schema of that name has against the value."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": build_document()["components"]}
    errors = jsonschema_rs.Draft202012Validator(schema, offline=True).iter_errors(json.loads(json.dumps(value)))
    return [f"{error.instance_path}: {error.message}" for error in errors]


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMES)
def test_each_document_is_a_page_whose_links_lead_somewhere(client: Client, a_person: Any, name: str) -> None:
    client.force_login(a_person("viewer"))
    page = client.get(reverse("help-document", args=[name])).content.decode()
    article = page[page.index('<article class="help-text">') : page.index("</article>")]
    assert "<script" not in article and "style=" not in article and "&lt;!--" not in article
    for target in re.findall(r'href="(/[^"]+|#[^"]+)"', article):
        path, _, anchor = target.partition("#")
        html = client.get(path).content.decode() if path else page
        assert not anchor or f'id="{anchor}"' in html, target


@pytest.mark.django_db
def test_help_is_for_people_who_are_signed_in(client: Client) -> None:
    assert client.get("/help/").status_code == client.get("/help/api/").status_code == 302
    assert client.get("/api/v1/openapi.json").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["nothing", "..%2fREADME", "README"])
def test_an_unknown_document_is_not_found(client: Client, a_person: Any, name: str) -> None:
    client.force_login(a_person("viewer"))
    assert client.get(f"/help/{name}/").status_code == 404


def test_an_installed_copy_names_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHECKOUT", False)
    html = views.load_document.__wrapped__("operations").html
    assert "manage.py" not in html and "toolcards audit verify" in html


def test_the_openapi_document_lists_every_address_with_its_methods() -> None:
    paths = build_document()["paths"]
    expected = {"/" + re.sub(r"<(\w+)>", r"{\1}", pattern): {view.method.lower()} for pattern, view in ROUTES.items()}
    assert {path: set(methods) for path, methods in paths.items() if path in expected} == expected
    patterns = [str(entry.pattern) for entry in (*urls.POLICY, *urls.GRANTING, *urls.EMERGENCY)]
    people = {"/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", one) for one in patterns if one.startswith("api/")}
    assert set(paths) == {*expected, *people, "/api/v1/ingest"}


def test_the_openapi_document_has_no_open_reference() -> None:
    document = build_document()
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))):
        part: Any = document
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
    identifiers = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(identifiers)) == len(identifiers)


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
@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_real_decisions_fit_their_schema(source: Any, policy: Any, an_approver: Any, effect: str) -> None:
    policy({"default": effect})
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert decision["decision"] == effect and is_valid("Decision", decision) == []


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
