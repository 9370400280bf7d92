"""Sources and keys, and the texts of the connect page."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.sources import connect
from tests.support.server import PATIENCE, with_curl
from toolcards.connect import RECIPES
from toolcards.connect.programs import libraries
from toolcards.core.calls import facts as f
from toolcards.gate.decisions.tool_register import check_tool
from toolcards.models import AgentKey, Source

CLIENT = Path(__file__).parents[3] / "toolcards" / "client"


@pytest.mark.django_db
def test_a_source_shows_what_can_be_done_and_when_it_last_sent(admin: Client, a_call: Any, source: Source) -> None:
    a_call("output-error")
    page = admin.get("/sources/").content.decode()
    assert source.name in page and "gates" in page and "native" in page and source.keys.get().prefix in page
    one = admin.get(f"/sources/{source.pk}/").content.decode()
    assert "Recent failures" in one and "run-1" in one
    assert admin.get("/sources/9999/").status_code == 404


@pytest.mark.django_db
def test_a_source_whose_questions_only_its_owner_could_answer_says_so(
    admin: Client, policy: Any, source: Source, a_person: Any
) -> None:
    policy({"default": "ask"})
    there = f"/sources/{source.pk}/"
    assert "data-unanswerable" not in admin.get(there).content.decode()
    admin.post(f"{there}owner/", {"owner": "a-admin"})
    page = admin.get(there).content.decode()
    assert "data-unanswerable" in page and "a-admin is the only approver" in page
    policy({"default": "ask", "default_ask": {"allow_requester": True}})
    assert "data-unanswerable" not in admin.get(there).content.decode()
    policy({"default": "ask"})
    a_person("approver", "bea")
    assert "data-unanswerable" not in admin.get(there).content.decode()


@pytest.mark.django_db
def test_a_new_keys_secret_stands_in_one_answer_only(admin: Client) -> None:
    answer = admin.post("/sources/keys/", {"name": "robot", "scopes": ["ingest"]})
    secret = answer.content.decode().split("data-secret>")[1].split("<")[0]
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    key = AgentKey.objects.find_by_secret(secret)
    assert key is not None and key.scopes == "ingest"
    assert secret not in admin.get("/sources/").content.decode()
    assert admin.post(f"/sources/keys/{key.pk}/revoke/").status_code == 302
    assert AgentKey.objects.find_by_secret(secret) is None


@pytest.mark.django_db
def test_before_a_key_ends_the_page_says_who_is_cut_off(admin: Client, a_call: Any, source: Source) -> None:
    there = f"/sources/{source.pk}/"
    parts = re.findall(r'<details class="end-key".*?</details>', admin.get(there).content.decode(), re.DOTALL)
    assert len(parts) == 2 and all("No agent of this source runs now" in part for part in parts)
    run = a_call("approval-requested").run
    parts = re.findall(r'<details class="end-key".*?</details>', admin.get(there).content.decode(), re.DOTALL)
    assert all(f"<b>{run.agent_name}</b>" in part for part in parts)
    assert "works until the new one is used" in parts[0] and 'name="end" value="now"' in parts[0]
    assert "This key ends at once" in parts[1] and "Revoke now</button>" in parts[1]


@pytest.mark.django_db
@pytest.mark.parametrize(("form", "words"), [({}, "works until this one is used"), ({"end": "now"}, "has ended")])
def test_after_a_rotation_the_page_says_what_became_of_the_old_key(
    admin: Client, source: Source, form: dict[str, str], words: str
) -> None:
    key, secret = AgentKey.objects.issue(source.name)
    page = admin.post(f"/sources/keys/{key.pk}/rotate/", form).content.decode()
    assert f"The old key {key.prefix}… {words}" in page
    assert (AgentKey.objects.find_by_secret(secret) is None) == bool(form)
    there = admin.get(f"/sources/{source.pk}/").content.decode()
    assert ("ends when that is used" in there) == (not form)


@pytest.mark.slow
@pytest.mark.django_db
def test_a_key_can_expire_and_its_replacement_keeps_the_end(admin: Client) -> None:
    admin.post("/sources/keys/", {"name": "robot", "scopes": ["ingest"], "expires_in": "30"})
    key = AgentKey.objects.get(source__name="robot")
    assert key.expires_at is not None and 29 < (key.expires_at - timezone.now()) / timedelta(days=1) <= 30
    assert "until " in admin.get(f"/sources/{key.source_id}/").content.decode()
    admin.post(f"/sources/keys/{key.pk}/rotate/")
    newer = AgentKey.objects.live().exclude(pk=key.pk).get(source__name="robot")
    assert newer.expires_at == key.expires_at
    AgentKey.objects.filter(source__name="robot").update(expires_at=timezone.now())
    assert not AgentKey.objects.live().filter(source__name="robot").exists()
    for days in ("0", "99999", "x"):
        answer = admin.post("/sources/keys/", {"name": "robot", "scopes": ["ingest"], "expires_in": days})
        assert answer.status_code == 422 and set(answer.context["key_form"].errors) == {"expires_in"}


@pytest.mark.django_db
def test_a_key_without_name_or_scope_shows_the_error_at_its_field(admin: Client) -> None:
    answer = admin.post("/sources/keys/", {"name": "", "scopes": ["fly"]})
    assert answer.status_code == 422 and set(answer.context["key_form"].errors) == {"name", "scopes"}
    assert AgentKey.objects.count() == 0


@pytest.mark.django_db
def test_hostile_names_are_escaped(admin: Client) -> None:
    AgentKey.objects.issue("<script>alert(1)</script>")
    assert b"<script>alert" not in admin.get("/sources/").content


@pytest.mark.django_db
@pytest.mark.parametrize("way", connect.METHODS, ids=lambda way: way.slug)
def test_every_way_shows_its_texts_with_this_servers_address(admin: Client, way: connect.ConnectMethod) -> None:
    page = admin.get(f"/connect/{way.slug}/").content.decode()
    assert "http://testserver" in page or "ws://testserver/" in page
    assert connect.PLACEHOLDER in page
    for snippet in way.snippets:
        assert f'data-snippet="{snippet.name}"' in page
    assert page.count("data-grade=") == 4 and "data-fails" in page and "data-undo" in page
    assert re.findall(r"<script(?![^>]*src=)|style=", page) == []


@pytest.mark.django_db
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_program_that_is_wired_by_command_shows_the_commands(admin: Client, recipe: Any) -> None:
    page = admin.get(f"/connect/{recipe.name}/").content.decode()
    assert f"{recipe.command} --url http://testserver --key {connect.PLACEHOLDER}" in page
    assert f"python3 manage.py connect {recipe.name}" in page
    assert f"<code>{recipe.undo_command}</code>" in page
    assert recipe.fails.lower() in page.lower() and recipe.version in page
    for name in recipe.aliases:
        assert recipe.command in admin.get(f"/connect/{name}/").content.decode()


@pytest.mark.django_db
def test_texts_with_angle_brackets_are_escaped(admin: Client) -> None:
    assert "def read_file(path: str) -&gt; str:" in admin.get("/connect/python/").content.decode()


def test_a_partial_ability_is_not_shown_as_yes() -> None:
    graded = {way.slug: {word: grade for word, grade, _ in way.abilities} for way in connect.METHODS}
    assert graded["ag-ui"]["gate"] == graded["acp"]["gate"] == graded["ai-sdk"]["edit arguments"] == "partly"
    assert graded["acp"]["stream"] == graded["claude-code"]["stream"] == "no"
    assert set(graded["pydantic-ai"].values()) == {"yes"}


@pytest.mark.parametrize("name", ["python_gated", "pydantic_ai", "langchain", "openai_agents"])
def test_a_python_text_compiles_and_names_what_our_client_has(name: str) -> None:
    for node in ast.walk(ast.parse(connect.fill_snippet(name, "http://testserver"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolcards.client"):
            path = CLIENT.joinpath(*node.module.split(".")[2:])  # type: ignore[union-attr]
            source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
            assert {alias.name for alias in node.names} <= set(re.findall(r"\w+", source))


@pytest.mark.skipif(not shutil.which("node"), reason="not here: Node.js")
@pytest.mark.parametrize("name", ["ai_sdk_7", "ai_sdk_6", "tanstack", "ag_ui_client"])
def test_a_javascript_text_is_a_module(name: str) -> None:
    program = ["node", "--check", "--input-type=module", "-"]
    completed = subprocess.run(
        program,
        input=connect.fill_snippet(name, "http://testserver"),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert completed.returncode == 0, completed.stderr


def test_an_editors_settings_are_json() -> None:
    assert json.loads(connect.fill_snippet("acp", "http://testserver"))["env"]["TOOLCARDS_URL"] == "http://testserver"


@pytest.mark.parametrize("name", ["ai_sdk_files", "tanstack_files"])
def test_the_modules_to_copy_are_fetched_as_printed(server: Any, tmp_path: Path, name: str) -> None:
    _shell(f"cd {tmp_path}\n{connect.fill_snippet(name, server.base, server.key)}")
    modules = {module.name: module.read_text() for module in (tmp_path / "toolcards").glob("*.mjs")}
    expected = {*libraries.MODULES, *(["tanstack.mjs"] if name == "tanstack_files" else [])}
    assert set(modules) == expected and all("export " in text for text in modules.values())
    shown_text = (tmp_path / ".env.local").read_text()
    assert shown_text == f"TOOLCARDS_URL={server.base}\nTOOLCARDS_AGENT_KEY={server.key}\n"


def test_the_gated_function_works_as_printed(server: Any) -> None:
    program = connect.fill_snippet("python_gated", server.base, server.key)
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert completed.returncode == 0 and completed.stdout.startswith("# Toolcards"), completed.stderr
    status, result = server.request("GET", "/api/v1/runs/try-4/calls")[:2]
    assert status == 200 and [call["state"] for call in result["calls"]] == ["output-available"]


@pytest.mark.django_db
def test_nothing_unfinished_is_advertised(admin: Client) -> None:
    page = admin.get("/connect/").content.decode().lower()
    assert "coming" not in page and "soon" not in page
    assert admin.get("/connect/telepathy/").status_code == 404


def test_the_three_requests_work_as_printed(server: Any) -> None:
    decided = json.loads(_shell(connect.fill_snippet("curl_decide", server.base, server.key)))
    assert decided["decision"] == "allow"
    claim = connect.fill_snippet("curl_claim", server.base, server.key)
    claim = claim.replace("PERMIT", decided["permit"]["id"]).replace("ARGS_SHA256", decided["args_sha256"])
    assert json.loads(_shell(claim))["state"] == "claimed"
    result, end = _shell(connect.fill_snippet("curl_result", server.base, server.key)).split("}{")
    assert json.loads(result + "}")["state"] == "output-available"
    assert json.loads("{" + end)["status"] == "finished"


def test_watching_works_as_printed(server: Any) -> None:
    payload = json.loads(_shell(connect.fill_snippet("curl_watch", server.base, server.key)))
    assert payload["calls"] == [{"call_id": "call-1", "state": "output-available"}]


def test_the_socket_program_works_as_printed(server: Any) -> None:
    program = connect.fill_snippet("websocket_py", server.base, server.key)
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert completed.returncode == 0, completed.stderr
    status, result = server.request("GET", "/api/v1/runs/try-3/calls")[:2]
    assert status == 200 and [call["state"] for call in result["calls"]] == ["output-available"]


@pytest.mark.parametrize(("name", "trace"), [
    ("ai_sdk_curl", "ai-sdk-7/a-success-streamed-args.turn1.sse"),
    ("ag_ui_curl", "ag-ui-langgraph/a-success-streamed-args.turn1.sse"),
])  # fmt: skip
def test_piping_a_stream_works_as_printed(server: Any, name: str, trace: str) -> None:
    text = connect.fill_snippet(name, server.base, server.key)
    ours = text[text.index("| curl -sS -T -") + 2 :]
    payload = json.loads(_shell(f"cat tests/traces/{trace} | {ours}"))
    assert payload["accepted"] > 0 and {call["state"] for call in payload["calls"]} == {"output-available"}


def _shell(text: str) -> str:
    completed = subprocess.run(
        ["bash", "-c", text], env=with_curl(), capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.django_db
def test_a_tool_without_a_server_says_so_once(admin: Client, source: Source) -> None:
    check_tool(source.pk, "Bash", [], server="")
    check_tool(source.pk, "search", [], server="github")
    page = re.sub(r"<[^>]+>|\s+", " ", admin.get(f"/sources/{source.pk}/").content.decode())
    page = " ".join(page.split())
    assert "no server" in page and "no server server" not in page and "github server" in page


@pytest.mark.django_db
def test_a_source_counts_no_call_without_a_result_as_failed(admin: Client, a_run: Any, source: Source) -> None:
    calls = [f.InputReady(f"c{number}", "Read", {"path": "a"}, True) for number in range(3)]
    a_run("lost", *calls, f.OutputFailed("c0", "it broke"), f.RunEnded(outcome="truncated"))
    page = " ".join(admin.get(f"/sources/{source.pk}/").content.decode().split())
    assert "3, 1 failed" in page and page.split("Recent failures")[1].split("</section>")[0].count("<li>") == 1
