"""Proofs of what a source can do: each by a call, and the newest counts."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard.sources import views
from tests.support.gate_commands import RecordFacts
from toolcards.connect.probe import OFFLINE_TOOL, RUN_PREFIX
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Actor
from toolcards.gate.writer import group_commit
from toolcards.models import Proof, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.sources import capabilities

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin"))
    return client


def list_proofs(source: Source) -> dict[str, list[str]]:
    return {row.name: [proof.by for proof in row.proofs] for row in views.list_abilities(source)}


def test_nothing_is_claimed_of_a_source_that_was_not_seen(source: Source, admin: Client) -> None:
    assert list_proofs(source) == {"observe": [], "gate": [], "edit": [], "stream": [], "fails": []}
    page = admin.get(f"/sources/{source.pk}/").content.decode()
    assert page.count('data-proven="no"') == 5 and page.count("Not verified: ") == 5


@pytest.mark.slow
def test_a_source_is_said_to_gate_once_it_has(source: Source, admin: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available")
    for page in ("/sources/", f"/sources/{source.pk}/"):
        assert "gates, not verified yet" in admin.get(page).content.decode()
    a_call("output-denied", call_id="denied", run="run-2")
    for page in ("/sources/", f"/sources/{source.pk}/"):
        assert "gates, not verified yet" not in admin.get(page).content.decode()
    assert (
        capabilities.find_gating_sources([source.pk]) == {source.pk} and capabilities.find_gating_sources([]) == set()
    )


def test_each_ability_is_proven_by_a_call(source: Source, a_call: Callable[..., ToolCall], an_approver: Any) -> None:
    a_call("input-available")
    assert list_proofs(source) == {"observe": ["traffic"], "gate": [], "edit": [], "stream": [], "fails": []}
    a_call("approval-requested", call_id="asked", run="run-2")
    assert list_proofs(source)["gate"] == []
    a_call("output-denied", call_id="denied", run="run-3")
    assert list_proofs(source)["gate"] == ["traffic"]
    group_commit.execute(RecordFacts(source, "run-4", [f.InputStarted("s", "bash"), f.InputDelta("s", "{")]))
    assert list_proofs(source)["stream"] == ["traffic"]


def test_edited_arguments_are_proven_once_they_have_run(source: Source, an_approver: Any) -> None:
    facts = [f.InputReady("c", "bash", {"command": "rm a"}, True), f.ApprovalRequested("c", "a", opener="gate")]
    edited = f.ApprovalAnswered("c", True, by=Actor("human", "ann"), input={"command": "ls a"}, has_input=True)
    group_commit.execute(RecordFacts(source, "r", [*facts, edited]))
    assert list_proofs(source)["edit"] == []
    group_commit.execute(RecordFacts(source, "r", [f.OutputReady("c", "a")]))
    assert list_proofs(source)["edit"] == ["traffic"]


def test_a_probe_and_real_traffic_are_distinguished(source: Source, a_call: Callable[..., ToolCall]) -> None:
    a_call("output-denied", run=f"{RUN_PREFIX}1")
    assert list_proofs(source)["gate"] == ["probe"] == list_proofs(source)["observe"]
    a_call("output-denied", run="run-1")
    assert list_proofs(source)["gate"] == ["traffic", "probe"]


def test_the_probe_reports_what_the_agent_does_without_a_server(source: Source, admin: Client) -> None:
    facts = [f.InputReady("away", OFFLINE_TOOL, {"checked": "its code was run"}, True)]
    group_commit.execute(
        RecordFacts(source, f"{RUN_PREFIX}2", [*facts, f.OutputDenied("away", "The gate gave no decision.")])
    )
    assert list_proofs(source) == {"observe": [], "gate": [], "edit": [], "stream": [], "fails": ["probe"]}
    page = admin.get(f"/sources/{source.pk}/").content.decode()
    assert "Closed: its code was run; The gate gave no decision." in page


def test_a_call_that_ran_without_a_decision_proves_that_it_fails_open(source: Source) -> None:
    fact = f.ApprovalRequested("c", "a", opener="agent")
    group_commit.execute(
        RecordFacts(source, "run-9", [f.InputReady("c", "bash", {}, True), fact, f.OutputReady("c", 1)])
    )
    (proofs,) = capabilities.list_proofs(source)["fails"]
    assert (proofs.by, proofs.words.startswith("Open")) == ("traffic", True)


def test_a_proof_outlives_the_call_and_only_a_newer_one_replaces_it(
    source: Source, a_call: Callable[..., ToolCall]
) -> None:
    a_call("output-denied", run="old")
    (first,) = capabilities.list_proofs(source)["gate"]
    a_call("output-denied", run="new")
    (second,) = capabilities.list_proofs(source)["gate"]
    assert (first.run, second.run, Proof.objects.filter(ability="gate").count()) == ("old", "new", 1)
    with allow_log_writes():
        Run.objects.filter(name="new").update(name="renamed")
    assert capabilities.list_proofs(source)["gate"] == [second]


def test_what_retention_deletes_is_written_down_before(
    source: Source, a_call: Callable[..., ToolCall], limits: Callable[..., None]
) -> None:
    a_call("output-denied", run="old")
    group_commit.execute(RecordFacts(source, "old", [f.RunEnded()]))
    with allow_log_writes():
        Run.objects.filter(name="old").update(ended_at=timezone.now() - timedelta(days=3))
    capabilities.gather_expiring()
    assert not Proof.objects.exists()  # nothing is deleted by default
    limits(retention_days=2)
    call_command("retention", stdout=io.StringIO())
    assert not Run.objects.filter(name="old").exists()
    assert {proof.run for proof in capabilities.list_proofs(source)["gate"]} == {"old"}


def test_hostile_words_in_a_proof_are_escaped(source: Source, admin: Client) -> None:
    facts = [
        f.InputReady("away", OFFLINE_TOOL, {"checked": "<b>"}, True),
        f.OutputDenied("away", "<script>alert(1)</script>"),
    ]
    group_commit.execute(RecordFacts(source, f"{RUN_PREFIX}<i>", facts))
    page = admin.get(f"/sources/{source.pk}/").content.decode()
    assert "<script>alert" not in page and "<i>" not in page and "Closed: &lt;b&gt;" in page
