"""`toolcards mcp` between real MCP clients and servers: the official package and FastMCP, over stdio and HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.mcp_setup import Setup, find_calls, wait_for_states
from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter
from toolcards import connect

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
KINDS = ("sdk", "fastmcp")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="delete_file", field="/path"))
        yield running


@pytest.fixture(params=["sdk-stdio", "fastmcp-http"])
def setup(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Setup]:
    new_setup = Setup(server, tmp_path, *request.param.split("-"))
    yield new_setup
    new_setup.stop()


@pytest.mark.parametrize("setup", ["sdk-stdio", "fastmcp-stdio", "sdk-http", "fastmcp-http"], indirect=True)
@pytest.mark.parametrize("client", KINDS)
def test_calls_pass_or_are_denied_and_both_are_shown(server: Server, setup: Setup, client: str) -> None:
    results = setup.play(
        client,
        ["delete_file", {"path": "a.txt"}],
        ["delete_file", {"path": "echo forbidden"}],
        ["count_lines", {"path": "missing"}],
    )
    assert results[0] == {"text": "deleted a.txt", "is_error": False}
    assert results[1]["is_error"] and "Not allowed here." in results[1]["text"]
    assert results[2]["is_error"]
    assert [args["path"] for args in setup.read_executions()] == ["a.txt", "missing"]
    calls = wait_for_states(server, setup, "output-available", "output-denied", "output-error")
    (run,) = {call["run"] for call in calls}
    assert server.get(f"/api/v1/runs/{run}")["agent"]
    if not setup.processes:  # over stdio the session ends with the client
        until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_person_changes_the_arguments_and_the_server_gets_the_changed_ones(
    server: Server, setup: Setup, mode: str
) -> None:
    with Background(setup, "sdk", ["delete_file", {"path": "echo ask", "force": True}], mode=mode) as results:
        call = wait_for_states(server, setup, "approval-requested")[0]
        assert setup.read_executions() == []
        gating.vote(server, call["run"], "edit", edited={"path": "b.txt", "force": True})
    assert results == [{"text": "deleted b.txt", "is_error": False}]
    assert setup.read_executions() == [{"path": "b.txt", "force": True}]
    assert "deleted b.txt" in str(wait_for_states(server, setup, "output-available")[0]["output"])


@pytest.mark.parametrize(("kind", "transport"), [("sdk", "stdio"), ("fastmcp", "http")])
@pytest.mark.parametrize("vote", ["approve", "deny"])
def test_a_question_outlives_its_requests_and_the_same_call_gets_the_answer(
    server: Server, tmp_path: Path, kind: str, transport: str, vote: str
) -> None:
    setup = Setup(server, tmp_path, kind, transport, "--answer-within", "0.5")
    with Background(setup, kind, ["delete_file", {"path": "echo ask"}, {"again": True}]) as results:
        until(lambda: len(find_calls(server, setup.name)) == 1)
        (call,) = wait_for_states(server, setup, "approval-requested")
        gating.vote(server, call["run"], vote, reason="Keep it." if vote == "deny" else "")
    (result,) = results
    assert result["is_error"] == (vote == "deny")
    assert ("Keep it." if vote == "deny" else "deleted echo ask") in result["text"]
    assert len(find_calls(server, setup.name)) == 1 and len(setup.read_executions()) == (vote == "approve")
    setup.stop()


def test_a_call_that_its_client_cancels_does_not_run_and_asks_no_one_any_more(server: Server, setup: Setup) -> None:
    assert setup.play("sdk", ["delete_file", {"path": "echo ask"}, {"cancel": 3}]) == [{"canceled": True}]
    (call,) = until(lambda: [call for call in find_calls(server, setup.name) if not call["state"].startswith("appr")])
    assert call["state"] in {"output-denied", "output-error"} and setup.read_executions() == []


def test_parallel_calls_get_their_own_decisions(server: Server, setup: Setup) -> None:
    paths = [f"{index}.txt" if index % 3 else f"echo forbidden {index}" for index in range(12)]
    results = setup.play("sdk", *(["delete_file", {"path": path}] for path in paths), parallel=True)
    for path, result in zip(paths, results, strict=True):
        assert result["text"] == f"deleted {path}" if path.endswith(".txt") else "Not allowed here." in result["text"]
    assert sorted(args["path"] for args in setup.read_executions()) == sorted(p for p in paths if p.endswith(".txt"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_that_asks_its_user_gets_the_answer_in_the_same_call(server: Server, setup: Setup, mode: str) -> None:
    """In `auto` mode, protocol 2026-07-28: the client repeats the call with the answer, which is judged as one more."""
    if (setup.kind, mode) == ("fastmcp", "auto"):
        pytest.skip("FastMCP 4.1.2 cannot ask its user in protocol 2026-07-28")
    (result,) = setup.play("sdk", ["choose", {"path": "a.txt"}], mode=mode)
    assert result == {"text": "keep a.txt", "is_error": False}
    run_calls = wait_for_states(server, setup, *["output-available"] * (2 if mode == "auto" else 1))
    notes = [call["agent_note"] for call in run_calls if call["agent_note"]]
    assert [note for note in notes if '"keep": "a.txt"' not in note] == [] and len(notes) == len(run_calls) - 1


def answer(server: Server, call: dict[str, Any], decision: str = "answer", **fields: str) -> int:
    """Answer a form as a person does; return the status."""
    fields |= {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"]}
    path = f"/approvals/{call['approval']['id']}/vote"
    return Voter(server).post(path, page="/approvals/", decision=decision, **fields)[0]


FORM_CASES = {
    "accept": ("answer", {"answer-0": "1", "answer-1-text": "3", "answer-2": "0", "answer-3-text": "<b>soon</b>"},
               'accept {"size":"M","count":3,"gift":true,"note":"<b>soon</b>"}'),
    "decline": ("deny", {}, "decline"),
}  # fmt: skip


@pytest.mark.parametrize("setup", ["sdk-stdio", "fastmcp-stdio", "sdk-http", "fastmcp-http"], indirect=True)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("case", FORM_CASES)
def test_a_form_of_the_server_is_answered_in_the_inbox_if_the_client_cannot_show_it(
    server: Server, setup: Setup, mode: str, case: str
) -> None:
    if (setup.kind, mode) == ("fastmcp", "auto"):
        pytest.skip("FastMCP 4.1.2 cannot ask its user in protocol 2026-07-28")
    decision, fields, text = FORM_CASES[case]
    with Background(setup, "sdk", ["order", {"item": "shirt"}], mode=mode, no_forms=True) as results:
        form = until(lambda: next((c for c in find_calls(server, setup.name) if "form-" in c["call_id"]), None))
        assert form["input"]["message"] == "What to order?"
        for wrong in ({}, {"answer-0": "1", "answer-1-text": "12"}, {"answer-0": "1", "answer-1-text": "three"}):
            assert case == "decline" or answer(server, form, **wrong) == 422
        assert answer(server, form, decision, **fields) == 200
        assert answer(server, form, "answer", **{"answer-0": "2", "answer-1-text": "1"}) in {409, 410, 412}
    assert results == [{"text": text, "is_error": False}]
    states = ["output-available", "output-available" if case == "accept" else "output-denied"]
    wait_for_states(server, setup, *states, *["output-available"] * (mode == "auto"))  # the continued call is one more


def test_a_form_is_canceled_when_its_client_leaves(server: Server, setup: Setup) -> None:
    call = ["order", {"item": "shirt"}, {"cancel": 4}]
    with Background(setup, "sdk", call, mode="legacy", no_forms=True) as results:
        until(lambda: next((c for c in find_calls(server, setup.name) if "form-" in c["call_id"]), None))
    assert results == [{"canceled": True}]
    states = {"output-denied", "output-error"}
    forms = until(
        lambda: [c for c in find_calls(server, setup.name) if "form-" in c["call_id"] and c["state"] in states]
    )
    assert forms[0]["approval"]["state"] in {"cancelled", "expired"}, forms


def test_servers_of_a_configuration_that_connect_wrote_are_held(server: Server, setup: Setup, tmp_path: Path) -> None:
    if setup.processes:
        pytest.skip("a server with an address stays as it is")
    config = tmp_path / "mcp.json"
    original = json.dumps({"mcpServers": {setup.name: to_entry(setup)}}, indent=2)
    config.write_text(original)
    target = connect.Target(server.base, server.key, home=tmp_path, config=config)
    connect.write_changes(connect.get_recipe("mcp").plan(target))
    entry = json.loads(config.read_text())["mcpServers"][setup.name]
    env = {name: value for name, value in setup.env.items() if not name.startswith("TOOLCARDS_")}
    setup.plan = {"command": [entry["command"], *entry["args"]], "env": env}
    with Background(setup, "fastmcp", ["delete_file", {"path": "echo ask"}]) as results:
        call = wait_for_states(server, setup, "approval-requested")[0]
        assert setup.read_executions() == []
        gating.vote(server, call["run"], "approve")
    assert results == [{"text": "deleted echo ask", "is_error": False}]
    connect.write_changes(connect.get_recipe("mcp").undo(target))
    assert config.read_text() == original


def to_entry(setup: Setup) -> dict[str, Any]:
    """Return the server's own command as a client's configuration has it."""
    command = setup.plan["command"]
    program = command[command.index("--") + 1 :]
    return {"command": program[0], "args": program[1:]}


def test_a_changed_description_is_a_changed_tool(tmp_path: Path) -> None:
    """Without a listing by the client: the gateway lists the tools itself."""
    (tmp_path / "server").mkdir()
    with Server(tmp_path / "server") as server:
        gating.activate(server, {"v": 1, "default": "allow", "changed_tool": "deny", "rules": []})
        setup = Setup(server, tmp_path, "sdk", "stdio")
        call = ["delete_file", {"path": "a.txt"}]
        assert setup.play("sdk", call, list=False) == [{"text": "deleted a.txt", "is_error": False}]
        setup.plan["env"] = setup.env | {"MCP_DESCRIPTION": "Delete a file, and mail the others."}
        for lists in (True, False):
            assert setup.play("sdk", call, list=lists)[0]["is_error"]
        assert len(setup.read_executions()) == 1


def test_without_a_server_nothing_runs_and_the_model_reads_why(tmp_path: Path) -> None:
    away = Server(tmp_path / "away")
    away.base = "http://127.0.0.1:9"
    setup = Setup(away, tmp_path, "sdk", "stdio")
    (result,) = setup.play("sdk", ["delete_file", {"path": "a.txt"}])
    assert result["is_error"] and "gave no decision" in result["text"] and setup.read_executions() == []


class Background:
    """A plan that is played while a test does something else; its results are there after the block."""

    def __init__(self, setup: Setup, client: str, *calls: Any, **more: Any) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.extend(setup.play(client, *calls, **more)))

    def __enter__(self) -> list[Any]:
        self._thread.start()
        return self._results

    def __exit__(self, *error: object) -> None:
        self._thread.join(2 * PATIENCE)
