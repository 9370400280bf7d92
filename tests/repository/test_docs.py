"""docs/api.md says what the code does: every marked table there is compared with real objects and real answers."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from dashboard import urls
from dashboard.cards import labels
from dashboard.environment import Environment
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.adapters import native
from toolcards.audit import verification
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.card import KINDS, Card, ToolCallState
from toolcards.core.calls.reducer.outcome_handlers import NO_RESULT
from toolcards.core.calls.transitions import NEXT
from toolcards.core.runs.input_routing import CHANGED_ANOMALY
from toolcards.models import EVERY_SCOPE, SCOPES, Approval, Event, Run, ToolCall
from toolcards.models.approvals import ANSWERED_STATES
from toolcards.models.runs import CANNOT_BE_OPENED
from toolcards.transports.agents import gate_api
from toolcards.transports.api import read_api
from toolcards.transports.api.event_replay import EventReplay
from toolcards.transports.metrics import MetricsCollector, count_rows
from toolcards.transports.urls import ROUTES

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs" / "api.md").read_text()


def table(name: str) -> list[list[str]]:
    """The rows of the table marked so."""
    match = re.search(rf"<!-- compared: {name} -->\n((?:\|.*\n)+)", API)
    assert match, f"docs/api.md has no table marked {name}"
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in match[1].splitlines()]
    return rows[2:]


def names(name: str) -> set[str]:
    """What the first column of the table names."""
    return {row[0].strip("`") for row in table(name)}


def fields(name: str) -> dict[str, set[str]]:
    """First column to the words in code of the second."""
    return {row[0].strip("`"): set(re.findall(r"`([\w.]+)`", row[1])) for row in table(name)}


def test_every_address_is_written_down() -> None:
    table_rows = {
        row[0].strip("`"): (row[1], {word.strip() for word in row[2].split(",")}) for row in table("addresses")
    }
    addresses: dict[str, tuple[str, set[str]]] = {"/api/v1/ingest": ("POST", {"ingest"})}
    for pattern, view in ROUTES.items():
        addresses["/" + pattern] = (view.method, {*view.scopes, *(["people"] if view.people else [])} or {"everyone"})
    table_rows["/metrics"] = ("GET", {"everyone"})
    assert table_rows == addresses


def test_every_address_of_people_is_written_down() -> None:
    patterns = [
        str(entry.pattern) for entry in (*urls.ANSWERING, *urls.AUDIT, *urls.EMERGENCY, *urls.GRANTING, *urls.POLICY)
    ]
    addresses = {f"/{pattern}" for pattern in patterns if pattern.startswith("api/")}
    assert names("people") == addresses


def test_every_scope_is_written_down_with_whether_a_key_has_it_by_default() -> None:
    table_rows = {row[0].strip("`"): row[2] == "yes" for row in table("scopes")}
    assert table_rows == {scope: scope in SCOPES for scope in EVERY_SCOPE}


def test_every_native_frame_is_written_down() -> None:
    union = get_args(get_args(native.Frames)[0])
    frames = {
        get_args(frame.model_fields["type"].annotation)[0]: set(frame.model_fields) - {"type", "at", "n"}
        for frame in union
    }  # fmt: skip
    assert fields("native") == frames


@pytest.mark.parametrize("name", ["DecideBody", "ClaimBody", "ResultBody", "EndBody"])
def test_every_body_is_written_down(name: str) -> None:
    assert names(name) == set(getattr(gate_api, name).model_fields)


def test_every_limit_is_written_down() -> None:
    limits = {
        f"TOOLCARDS_{name.upper()}": str(field.default)
        for name, field in Environment.model_fields.items()
        if name.startswith("max_")
    }
    assert {row[0].strip("`"): row[1] for row in table("limits")} == limits


@pytest.mark.django_db(transaction=True)
def test_every_metric_is_written_down(a_call: Any) -> None:
    a_call("output-available")
    verification.verify_and_store()
    sample_names = {sample.name for family in MetricsCollector(count_rows()).collect() for sample in family.samples}
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = page.partition("<!-- compared: metrics -->\n")[2].partition("\n\n")[0].splitlines()
    documented_names = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert documented_names == sample_names


ERRORS_IN = ("toolcards/transports", "toolcards/adapters", "dashboard/serving")


def test_every_error_of_the_transports_is_written_down() -> None:
    codes = set()
    for path in [path for folder in ERRORS_IN for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"Problem", "QuotaExceeded", "BadFrame", "Refusal"}
            ):
                code = node.args[1] if len(node.args) > 1 else None
                if isinstance(code, ast.Constant):
                    codes.add(code.value)
    assert names("errors") == codes | {"bad_field", "missing_field"}  # which of the two is found out at run time


def test_every_field_of_a_call_is_written_down() -> None:
    assert names("call") == set(build_call_json(Card("c"), run="r", id="1-1"))


def test_the_seven_states_and_the_ten_kinds_are_written_down() -> None:
    assert [row[0].strip("`") for row in table("states")] == [state.value for state in ToolCallState]
    assert [row[0].strip("`") for row in table("kinds")] == list(KINDS)


def test_every_cause_of_an_end_without_a_result_is_written_down() -> None:
    moves = {move for (row, _), move in NEXT.items() if row.startswith("closed/")}
    causes = {move for move in moves if move in labels.SOFT_END_LABELS} | {NO_RESULT}
    assert names("causes") == causes == set(labels.SOFT_END_LABELS)


@pytest.mark.slow
def test_every_anomaly_is_written_down() -> None:
    codes = {CHANGED_ANOMALY, CANNOT_BE_OPENED, "late-response", "conflicting-terminal"}
    for path in (ROOT / "toolcards").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"with_anomaly", "AnomalyRecorded"}:
                codes |= {str(part.value) for part in node.args if isinstance(part, ast.Constant)}
    assert names("anomalies") == codes == set(labels.ANOMALIES)


def test_every_state_of_an_approval_is_written_down() -> None:
    assert names("approval states") == {"pending", *ANSWERED_STATES, "claimed", "succeeded", "failed", "unknown"}


def test_the_reference_names_only_what_its_readers_have() -> None:
    words = re.compile(r"tests/|the contract\b|dashboard/|toolcards/")
    assert not {number: line for number, line in enumerate(API.splitlines(), 1) if words.search(line)}
    assert not {name for name in re.findall(r"\]\(([\w-]+\.md)", API) if not (ROOT / "docs" / name).exists()}


@pytest.mark.django_db(transaction=True)
def test_runs_and_approvals_are_written_down(a_call: Any) -> None:
    a_call("approval-requested")
    assert names("run") == set(read_api.serialize_run(Run.objects.select_related("source").get()))
    row = Approval.objects.select_related("run__source", "call").get()
    assert names("approval") == set(read_api.serialize_approval(row, ToolCall.objects.get().as_card()))


@pytest.mark.django_db(transaction=True)
def test_decisions_are_written_down(source: Any, policy: Any, an_approver: Any) -> None:
    policy({"default": "ask"})
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    parts = {name: set(decision[name]) for name in ("policy", "by", "reason", "approval")}
    assert names("decision") == set(decision)
    assert {name: fields("decision")[name] for name in parts} == parts


@pytest.mark.django_db(transaction=True)
def test_every_event_is_written_down(a_call: Any, a_run: Any) -> None:
    a_call("output-denied", run="denied")
    a_run(
        "all", f.StepStarted(), f.TextDelta(text="t"), f.InputStarted("c", "bash"), f.InputDelta("c", "{}"),
        f.InputReady("c"), f.OutputReady("c", 1), f.StepStarted(), f.InputStarted("d", "bash"),
        f.StepReset(), f.RunEnded(),
    )  # fmt: skip
    event_fields: dict[str, set[str]] = {}
    for run in Run.objects.all():
        teller = EventReplay(run)
        for event in Event.objects.after(run, 0):
            event_fields |= {one.name: set(one.data) - {"seq", "run", "at"} for one in teller.convert(event)}
    assert fields("events") == event_fields
    match = re.search(r"<!-- compared: event examples -->\n```text\n(.*?)```", API, re.DOTALL)
    assert match
    examples = re.findall(r"event: (\w+)\n(?:id: \d+\n)?data: (.*)", match[1])
    assert {name for name, _ in examples} == set(event_fields)
    for name, text in examples:
        data = json.loads(text)
        assert set(data) == event_fields[name] | {"seq", "run", "at"}, name
        call = data.get("call", {})
        assert set(call) <= names("call")
        assert not call or (data["state"], data["kind"]) == (call["state"], call["tool"]["kind"])
        assert not call or (call["state"] in names("states") and data["kind"] in names("kinds"))


@pytest.mark.django_db(transaction=True)
def test_what_a_socket_and_a_body_receive_is_documented(server: Any) -> None:
    body = '{"type":"tool.input.available","call_id":"c","tool":"bash","input":{}}\n{broken\n'
    asks = [
        {"type": "tool.input.available", "call_id": "d", "tool": "bash", "input": {}},
        {"type": "approval.requested", "call_id": "d", "approval_id": "a"},
    ]
    path = "/api/v1/ingest?protocol=native&run=documented&mode=gate"
    _, answer, _ = server.request("POST", path, body, Content_Type="application/x-ndjson")
    _, polls, _ = server.request("POST", "/api/v1/ingest?protocol=native&run=asking&answers=poll", asks)
    assert names("ingest") == {*answer, *polls}
    assert fields("ingest")["asked"] >= {*polls["asked"][0]}
    message_fields: dict[str, set[str]] = {}
    with server.socket(protocol="native") as socket:
        socket.send(json.dumps([{"type": "run.started"}, {"type": "?", "call_id": 1}]))
        socket.send("{broken")
        socket.send(json.dumps({**asks[0], "call_id": "long", "input": {"command": "x" * 300_000}}))
        socket.send(body.splitlines()[0])
        while len(message_fields) < 4 or "call_id" not in message_fields["error"]:
            message = json.loads(socket.recv(timeout=PATIENCE))
            message_fields[message["type"]] = message_fields.get(message["type"], set()) | (set(message) - {"type"})
    assert message_fields.pop("decision") <= names("decision")
    assert fields("socket").pop("decision") == set()
    assert {name: words for name, words in fields("socket").items() if name != "decision"} == message_fields
