"""The connect page's checklist, and what was proven of a source: ticked by what happens, never by promises."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard.sources import connect, views
from dashboard.sources.connect import METHODS, ConnectMethod
from tests.support.browser_sockets import text_with, watching
from tests.support.gate_commands import RecordFacts
from toolcards.connect import RECIPES
from toolcards.connect.probe import OFFLINE_TOOL, RUN_PREFIX
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Actor
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Proof, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.sources import badges, capabilities

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin"))
    return client


def done(name: str) -> list[str]:
    return [step.name for step in connect.list_steps(name) if step.at]


def proven(source: Source) -> dict[str, list[str]]:
    return {row.name: [proof.by for proof in row.proofs] for row in views.list_abilities(source)}


# ---------------------------------------------------------------- the checklist


def test_each_step_is_ticked_by_what_happened(source: Source, a_call: Callable[..., ToolCall]) -> None:
    AgentKey.objects.all().update(revoked_at="2026-01-01T00:00:00Z")
    assert done(source.name) == [] and done("nobody") == []
    AgentKey.objects.issue(source.name)
    assert done(source.name) == ["key"]
    a_call("output-available")
    assert done(source.name) == ["key", "event"]
    a_call("approval-requested", call_id="asked")
    assert done(source.name) == ["key", "event", "held"]
    a_call("output-denied", call_id="denied", run="run-2")
    assert done(source.name) == ["key", "event", "held", "released"]


def test_an_approval_that_the_agent_has_not_used_is_no_release(source: Source, a_call: Callable[..., ToolCall]) -> None:
    a_call("approval-responded")
    assert done(source.name) == ["key", "event", "held"]


async def test_the_open_page_updates_its_checklist(
    signed_in: Client, source: Source, a_call: Callable[..., ToolCall]
) -> None:
    async with watching(signed_in, "/ws/me/?board=connect&source=an%20agent") as opened:
        assert steps(await text_with(opened, 'id="steps"')) == ["key"]
        await sync_to_async(a_call)("input-available")
        await text_with(opened, 'data-step="event" data-done="yes"')
        await sync_to_async(a_call)("approval-requested", call_id="asked", run="run-2")
        await text_with(opened, 'data-step="held" data-done="yes"')


def steps(page: str) -> list[str]:
    return re.findall(r'data-step="(\w+)" data-done="yes"', page)


async def test_a_key_that_is_made_rings_no_bell_and_is_ticked_all_the_same(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/?board=connect&source=shop") as opened:
        await text_with(opened, 'data-step="key" data-done="no"')
        await sync_to_async(AgentKey.objects.issue)("shop")
        await text_with(opened, 'data-step="key" data-done="yes"')


def test_the_page_follows_the_source_that_the_command_makes(admin: Client) -> None:
    page = admin.get("/connect/claude-code/").content.decode()
    assert "/ws/me/?board=connect&amp;source=claude-code" in page and steps(page) == []
    AgentKey.objects.issue("claude-code")
    assert steps(admin.get("/connect/claude-code/").content.decode()) == ["key"]
    other = admin.get("/connect/claude-code/?source=a%26b<i>").content.decode()
    assert "source=a%26b%3Ci%3E" in other and "<i>" not in other


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_key_made_on_the_page_stands_in_its_texts_once(admin: Client, recipe: Any) -> None:
    answer = admin.post(f"/connect/{recipe.name}/")
    page = answer.content.decode()
    (secret,) = re.findall(r"data-secret>([^<]+)<", page)
    key = AgentKey.objects.find_by_secret(secret)
    assert key is not None and key.source.name == recipe.name
    assert f"--key {secret}" in page and "PASTE-YOUR-AGENT-KEY" not in page
    assert "no-store" in answer["Cache-Control"]
    assert secret not in admin.get(f"/connect/{recipe.name}/").content.decode()


def test_only_who_may_make_keys_can_make_one_there(client: Client, a_person: Any) -> None:
    client.force_login(a_person("approver"))
    assert client.post("/connect/claude-code/").status_code == 403
    assert not AgentKey.objects.filter(source__name="claude-code").exists()
    assert "ask an admin for one" in client.get("/connect/claude-code/").content.decode()


# ---------------------------------------------------------------- what was proven


def test_nothing_is_claimed_of_a_source_that_was_not_seen(source: Source, admin: Client) -> None:
    assert proven(source) == {"observe": [], "gate": [], "edit": [], "stream": [], "fails": []}
    page = admin.get(f"/sources/{source.pk}/").content.decode()
    assert page.count('data-proven="no"') == 5 and page.count("Not verified: ") == 5


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
    assert proven(source) == {"observe": ["traffic"], "gate": [], "edit": [], "stream": [], "fails": []}
    a_call("approval-requested", call_id="asked", run="run-2")
    assert proven(source)["gate"] == []
    a_call("output-denied", call_id="denied", run="run-3")
    assert proven(source)["gate"] == ["traffic"]
    group_commit.execute(RecordFacts(source, "run-4", [f.InputStarted("s", "bash"), f.InputDelta("s", "{")]))
    assert proven(source)["stream"] == ["traffic"]


def test_edited_arguments_are_proven_once_they_have_run(source: Source, an_approver: Any) -> None:
    facts = [f.InputReady("c", "bash", {"command": "rm a"}, True), f.ApprovalRequested("c", "a", opener="gate")]
    edited = f.ApprovalAnswered("c", True, by=Actor("human", "ann"), input={"command": "ls a"}, has_input=True)
    group_commit.execute(RecordFacts(source, "r", [*facts, edited]))
    assert proven(source)["edit"] == []
    group_commit.execute(RecordFacts(source, "r", [f.OutputReady("c", "a")]))
    assert proven(source)["edit"] == ["traffic"]


def test_a_probe_and_real_traffic_are_distinguished(source: Source, a_call: Callable[..., ToolCall]) -> None:
    a_call("output-denied", run=f"{RUN_PREFIX}1")
    assert proven(source)["gate"] == ["probe"] == proven(source)["observe"]
    a_call("output-denied", run="run-1")
    assert proven(source)["gate"] == ["traffic", "probe"]


def test_the_probe_reports_what_the_agent_does_without_a_server(source: Source, admin: Client) -> None:
    facts = [f.InputReady("away", OFFLINE_TOOL, {"checked": "its code was run"}, True)]
    group_commit.execute(
        RecordFacts(source, f"{RUN_PREFIX}2", [*facts, f.OutputDenied("away", "The gate gave no decision.")])
    )
    assert proven(source) == {"observe": [], "gate": [], "edit": [], "stream": [], "fails": ["probe"]}
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


def test_the_command_that_probes_is_that_of_the_sources_recipe(source: Source) -> None:
    key, _ = AgentKey.objects.issue("ai-sdk")
    assert views.build_proof_command(key.source, "--url x") == "toolcards connect ai-sdk --only-probe --url x"
    assert views.build_proof_command(source, "--url x").startswith(
        "toolcards connect anything --only-probe --url x --key"
    )


def test_hostile_words_in_a_proof_are_escaped(source: Source, admin: Client) -> None:
    facts = [
        f.InputReady("away", OFFLINE_TOOL, {"checked": "<b>"}, True),
        f.OutputDenied("away", "<script>alert(1)</script>"),
    ]
    group_commit.execute(RecordFacts(source, f"{RUN_PREFIX}<i>", facts))
    page = admin.get(f"/sources/{source.pk}/").content.decode()
    assert "<script>alert" not in page and "<i>" not in page and "Closed: &lt;b&gt;" in page


def test_a_program_that_was_seen_to_stop_is_not_said_to_fail_open(source: Source, a_run: Callable[..., Run]) -> None:
    with allow_log_writes():
        Run.objects.filter(pk=a_run("r").pk).update(protocol="claude-code")
    assert [badge.code for badge in badges.list_badges([source.pk])[source.pk]] == ["fails-open"]
    facts = [
        f.InputReady("away", OFFLINE_TOOL, {"checked": "its settings were read"}, True),
        f.OutputDenied("away", "no"),
    ]
    group_commit.execute(RecordFacts(source, f"{RUN_PREFIX}3", facts))
    assert badges.list_badges([source.pk])[source.pk] == []
    capabilities.gather_proofs(source)
    with allow_log_writes():
        ToolCall.objects.filter(tool=OFFLINE_TOOL).update(tool="forgotten")
    assert badges.list_badges([source.pk])[source.pk] == []
    with allow_log_writes():
        ToolCall.objects.filter(tool="forgotten").update(tool=OFFLINE_TOOL)


@pytest.mark.parametrize("method", [method for method in METHODS if method.guide], ids=lambda method: method.slug)
def test_the_guide_of_each_method_is_a_help_page(method: ConnectMethod, admin: Client) -> None:
    address, _, section = method.guide_link.partition("#")
    page = admin.get(address)
    assert page.status_code == 200
    assert f'id="{section}"' in page.content.decode() or not section
