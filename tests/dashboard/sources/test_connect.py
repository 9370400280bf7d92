"""The connect page: a checklist that is ticked by what happens, keys, and the commands of each recipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.sources import connect, views
from dashboard.sources.connect import METHODS, ConnectMethod
from tests.support.browser_sockets import text_with, watching
from toolcards.connect import RECIPES
from toolcards.models import AgentKey, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


def list_done_steps(name: str) -> list[str]:
    return [step.name for step in connect.list_steps(name) if step.at]


def test_each_step_is_ticked_by_what_happened(source: Source, a_call: Callable[..., ToolCall]) -> None:
    AgentKey.objects.all().update(revoked_at="2026-01-01T00:00:00Z")
    assert list_done_steps(source.name) == [] and list_done_steps("nobody") == []
    AgentKey.objects.issue(source.name)
    assert list_done_steps(source.name) == ["key"]
    a_call("output-available")
    assert list_done_steps(source.name) == ["key", "event"]
    a_call("approval-requested", call_id="asked")
    assert list_done_steps(source.name) == ["key", "event", "held"]
    a_call("output-denied", call_id="denied", run="run-2")
    assert list_done_steps(source.name) == ["key", "event", "held", "released"]


def test_an_approval_that_the_agent_has_not_used_is_no_release(source: Source, a_call: Callable[..., ToolCall]) -> None:
    a_call("approval-responded")
    assert list_done_steps(source.name) == ["key", "event", "held"]


@pytest.mark.slow
async def test_the_open_page_updates_its_checklist(
    signed_in: Client, source: Source, a_call: Callable[..., ToolCall]
) -> None:
    async with watching(signed_in, "/ws/me/?board=connect&source=an%20agent") as live_socket:
        assert steps(await text_with(live_socket, 'id="steps"')) == ["key"]
        await sync_to_async(a_call)("input-available")
        await text_with(live_socket, 'data-step="event" data-done="yes"')
        await sync_to_async(a_call)("approval-requested", call_id="asked", run="run-2")
        await text_with(live_socket, 'data-step="held" data-done="yes"')


def steps(page: str) -> list[str]:
    return re.findall(r'data-step="(\w+)" data-done="yes"', page)


@pytest.mark.slow
async def test_a_key_that_is_made_rings_no_bell_and_is_ticked_all_the_same(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/?board=connect&source=shop") as live_socket:
        await text_with(live_socket, 'data-step="key" data-done="no"')
        await sync_to_async(AgentKey.objects.issue)("shop")
        await text_with(live_socket, 'data-step="key" data-done="yes"')


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


@pytest.mark.parametrize(("name", "is_proposed"), [("claude-code", True), ("codex", True), ("opencode", False)])
def test_agents_that_review_their_calls_get_the_starter_that_follows_them(
    admin: Client, name: str, is_proposed: bool
) -> None:
    assert ("Follow the agent" in admin.get(f"/connect/{name}/").content.decode()) is is_proposed


def test_only_who_may_make_keys_can_make_one_there(client: Client, a_person: Any) -> None:
    client.force_login(a_person("approver"))
    assert client.post("/connect/claude-code/").status_code == 403
    assert not AgentKey.objects.filter(source__name="claude-code").exists()
    assert "ask an admin for one" in client.get("/connect/claude-code/").content.decode()


def test_the_command_that_probes_is_that_of_the_sources_recipe(source: Source) -> None:
    key, _ = AgentKey.objects.issue("ai-sdk")
    assert views.build_proof_command(key.source, "--url x") == "toolcards connect ai-sdk --only-probe --url x"
    assert views.build_proof_command(source, "--url x").startswith(
        "toolcards connect anything --only-probe --url x --key"
    )


@pytest.mark.parametrize("method", [method for method in METHODS if method.guide], ids=lambda method: method.slug)
def test_the_guide_of_each_method_is_a_help_page(method: ConnectMethod, admin: Client) -> None:
    address, _, section = method.guide_link.partition("#")
    page = admin.get(address)
    assert page.status_code == 200
    assert f'id="{section}"' in page.content.decode() or not section
