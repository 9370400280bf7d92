"""The real Codex CLI, connected as `connect codex` connects it, with a model that says what we want.

0.169.0 is what these tests run: `codex exec` with a home of its own, and a Responses API on loopback. Its hooks are
trusted through its flag, except in the test of untrusted hooks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.codex import Codex, await_run_end
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import Server
from tests.support.silent_server import Hole
from toolcards import connect

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


@pytest.fixture
def codex(server: Server, tmp_path: Path) -> Iterator[Codex]:
    created = Codex(tmp_path, server.base, server.key)
    yield created
    created.stop()


def test_a_success_is_shown_under_the_agents_name_and_the_run_ends(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("success"))["call_0"]
    assert (card["state"], card["tool"]["name"], card["tool"]["kind"]) == ("output-available", "Bash", "execute")
    assert card["input"] == {"command": "echo hello > ran.txt; echo hello"} and "hello" in card["output"]
    response = server.get(f"/api/v1/runs/{codex.run}")
    assert (response["agent"], response["status"], codex.ran) == ("Codex", "finished", True)


def test_a_rules_no_reaches_the_model(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("deny"))["call_0"]
    assert card["decision"]["rule"] == "no"
    assert "Not allowed here. Try something else." in codex.model.results[0]


def test_a_reused_id_with_another_command_is_judged_as_another_call(server: Server, codex: Codex) -> None:
    await_run_end(server, codex.start("twice"))
    assert not codex.ran and "one" in codex.model.results[0]
    assert "Command blocked by PreToolUse hook" in codex.model.results[1]


@pytest.mark.parametrize(("vote", "ran"), [("approve", "ask"), ("deny", ""), ("edit", "edited")])
def test_a_persons_answer_is_obeyed(server: Server, codex: Codex, vote: str, ran: str) -> None:
    codex.start("ask")
    run = codex.session()
    edited = {"command": "echo edited > ran.txt"} if vote == "edit" else None
    gating.vote(server, run, vote, reason="because", edited=edited)
    codex.finish()
    assert ((codex.project / "ran.txt").read_text().strip() if codex.ran else "") == ran
    assert ran or "A person declined: because" in codex.model.results[0]


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    codex = Codex(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    output = codex.start("touch").finish()
    assert not codex.ran and "gave no valid answer" in codex.model.results[0]
    assert "hook: Stop Completed" in output and "clamping" not in output
    codex.stop()


def test_a_server_that_hangs_holds_no_hook_that_only_tells(tmp_path: Path) -> None:
    with Hole() as hole:
        codex = Codex(tmp_path, hole.url, "tck_nobody_listens")
        path = codex.home / ".codex/hooks.json"
        hooks = json.loads(path.read_text())
        for event in ("PreToolUse", "PermissionRequest"):
            del hooks["hooks"][event]
        path.write_text(json.dumps(hooks))
        output = codex.start("touch").finish()
        assert codex.ran and hole.swallowed and "hook: PostToolUse Completed" in output
        codex.stop()


def test_nothing_runs_on_a_bad_answer(tmp_path: Path) -> None:
    lies = {"status 201 Created", "HTML", "too long", "cut off", "no JSON", "nothing at all"}
    with Gate({"Bash": "allow"}) as gate:
        codex = Codex(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in lies):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            codex.start("touch").finish()
            assert not codex.ran and "no valid answer" in codex.model.results[0], row
        gate.tamper = lambda stage, honest: None
        codex.start("touch").finish()
        assert codex.ran
        codex.stop()


def test_untrusted_hooks_are_skipped(server: Server, codex: Codex) -> None:
    """Therefore `connect` and the connect page explain how to trust them."""
    codex.start("deny", trusted=False).finish()
    assert "Not allowed here." not in codex.model.results[0]
    assert "/hooks" in connect.get_recipe("codex").next_step
