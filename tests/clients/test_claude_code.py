"""The real Claude Code, connected as `connect claude-code` connects it, with a model that says what we want.

2.1.329 is what these tests run; every session is headless (`claude -p`), with a home of its own and loopback only.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import claude as claude_code
from tests.clients.claude import Claude
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import Server, until
from tests.support.silent_server import Hole
from toolcards import connect

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def program() -> Path:
    return claude_code.program()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


@pytest.fixture
def claude(program: Path, server: Server, tmp_path: Path) -> Iterator[Claude]:
    """A Claude Code that is connected to the server."""
    session = Claude(program, claude_code.place(tmp_path, server.base, server.key))
    yield session
    if session.process is not None and session.process.poll() is None:
        session.process.kill()
        session.process.wait()
    session.model.close()


def calls(server: Server, claude: Claude) -> dict[str, Any]:
    """Return the cards, once the session's last hook has told that it is over."""
    until(lambda: server.request("GET", f"/api/v1/runs/{claude.session}")[1].get("status") in {"finished", "aborted"})
    return gating.calls(server, claude.session)


def test_a_success(server: Server, claude: Claude) -> None:
    claude.start("success").finish()
    card = calls(server, claude)["toolu_ok"]
    assert (card["state"], card["tool"]["kind"], card["output"]["stdout"]) == ("output-available", "execute", "hello")
    assert server.get(f"/api/v1/runs/{claude.session}")["status"] == "finished"
    assert claude.model.results["toolu_ok"] == "hello"


def test_the_environment_of_a_command_holds_no_agent_key(server: Server, claude: Claude) -> None:
    claude.start("env").finish()
    card = calls(server, claude)["toolu_env"]
    assert card["state"] == "output-available" and "ANTHROPIC_BASE_URL" in claude.model.results["toolu_env"]
    assert server.key not in claude.model.results["toolu_env"] and "tck_" not in claude.model.results["toolu_env"]


def test_a_rule_allows_what_the_program_would_have_asked_for_and_it_fails(server: Server, claude: Claude) -> None:
    claude.start("error").finish()
    card = calls(server, claude)["toolu_err"]
    assert (card["state"], card["decision"]["effect"]) == ("output-error", "allow")
    assert card["error"]["message"].startswith("Exit code 3")


def test_a_rules_no_reaches_the_model_with_reason_and_suggestion(server: Server, claude: Claude) -> None:
    claude.start("deny").finish()
    card = calls(server, claude)["toolu_no"]
    assert (card["state"], card["anomalies"]) == ("output-denied", [])
    assert "Not allowed here. Try something else." in claude.model.results["toolu_no"]


def test_a_persons_yes_lets_the_held_call_run(server: Server, claude: Claude) -> None:
    claude.start("ask")
    gating.vote(server, claude.session, "approve")
    claude.finish()
    card = calls(server, claude)["toolu_ask"]
    assert (card["state"], card["approval"]["by"]["kind"], card["anomalies"]) == ("output-available", "human", [])
    assert card["approval"]["state"] == "succeeded"
    assert claude.model.results["toolu_ask"] == "ask"


def test_what_a_person_allowed_and_failed_is_a_used_approval(server: Server, claude: Claude) -> None:
    claude.start("ask-exit")
    gating.vote(server, claude.session, "approve")
    claude.finish()
    card = calls(server, claude)["toolu_x"]
    assert (card["state"], card["approval"]["state"]) == ("output-error", "failed")


def test_a_persons_no_reaches_the_model(server: Server, claude: Claude) -> None:
    claude.start("ask")
    gating.vote(server, claude.session, "deny", reason="not on a Friday")
    claude.finish()
    card = calls(server, claude)["toolu_ask"]
    assert (card["state"], card["approval"]["by"]["kind"]) == ("output-denied", "human")
    assert "A person declined: not on a Friday" in claude.model.results["toolu_ask"]


def test_what_a_person_edited_is_what_runs(server: Server, claude: Claude) -> None:
    claude.start("ask")
    edited = {"command": "echo edited", "description": "run toolu_ask"}
    gating.vote(server, claude.session, "edit", edited=edited)
    claude.finish()
    card = calls(server, claude)["toolu_ask"]
    assert (card["state"], card["input"], card["original_input"]["command"]) == ("output-available", edited, "echo ask")
    assert claude.model.results["toolu_ask"] == "edited"


@pytest.mark.parametrize(("decision", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_the_programs_own_question_is_answered_here(server: Server, claude: Claude, decision: str, state: str) -> None:
    claude.start("write")
    gating.vote(server, claude.session, decision, reason="because")
    claude.finish()
    card = calls(server, claude)["toolu_w"]
    assert (card["state"], card["approval"]["by"]["kind"]) == (state, "human")
    assert card["approval"]["state"] == ("succeeded" if decision == "approve" else "denied")
    assert (claude.project / "out.txt").exists() is (decision == "approve")


def test_calls_of_one_turn_end_each_in_its_own_way(server: Server, claude: Claude) -> None:
    claude.start("parallel").finish()
    states = {call: card["state"] for call, card in calls(server, claude).items()}
    assert states == {"toolu_p1": "output-available", "toolu_p2": "output-error", "toolu_p3": "output-error"}


@pytest.mark.parametrize(
    ("scenario", "call", "code"),
    [
        ("unknown", "toolu_u", "no_such_tool"),
        ("invalid", "toolu_i", "invalid_input"),
        ("broken", "toolu_b", "invalid_input"),
    ],
)
def test_what_cannot_run_is_an_error_with_its_code(
    server: Server, claude: Claude, scenario: str, call: str, code: str
) -> None:
    claude.start(scenario).finish()
    card = calls(server, claude)[call]
    assert (card["state"], card["error"]["code"]) == ("output-error", code)


def test_a_sub_agents_calls_are_below_it(server: Server, claude: Claude) -> None:
    claude.start("agent").finish()
    cards = calls(server, claude)
    assert {call: card["state"] for call, card in cards.items()} == dict.fromkeys(
        ("toolu_a", "toolu_in"), "output-available"
    )
    assert cards["toolu_in"]["agent_path"][-1] == "general-purpose"


def test_an_interrupted_tool_is_aborted(server: Server, claude: Claude) -> None:
    claude.start("long")
    until((claude.project / "started").exists)
    assert claude.process is not None
    os.kill(claude.process.pid, signal.SIGINT)
    claude.finish()
    card = calls(server, claude)["toolu_l"]
    assert (card["state"], card["cause"]) == ("output-error", "aborted")
    assert server.get(f"/api/v1/runs/{claude.session}")["status"] == "aborted"


def test_an_interrupted_question_is_withdrawn(server: Server, claude: Claude) -> None:
    claude.start("ask")
    gating.waiting(server, claude.session)
    assert claude.process is not None
    os.kill(claude.process.pid, signal.SIGINT)
    claude.finish()
    card = calls(server, claude)["toolu_ask"]
    assert (card["state"], card["cause"], card["approval"]["state"]) == ("output-error", "aborted", "cancelled")


def test_a_server_that_dies_while_a_person_is_asked_lets_nothing_run(server: Server, claude: Claude) -> None:
    """The program does not ask again, and a later approval is not delivered."""
    claude.start("ask-write")
    gating.waiting(server, claude.session)
    server.kill()
    try:
        claude.finish()
    finally:
        server.start()
    assert not (claude.project / "ran.txt").exists()
    assert "hook" in claude.model.results["toolu_aw"]


def test_without_the_server_nothing_runs(server: Server, claude: Claude) -> None:
    """The tool is allowed by the program's own settings: only our hook stands in its way."""
    server.stop()
    try:
        claude.start("touch", "--allowedTools", "Bash").finish()
    finally:
        server.start()
    assert not (claude.project / "ran.txt").exists()
    assert "hook" in claude.model.results["toolu_t"]


def test_a_server_that_never_answers_lets_nothing_run(claude: Claude) -> None:
    """The hook's own limit ends the wait; here it is seconds, `connect` writes more than a person may take."""
    with Hole() as hole:
        connect.write_changes(
            connect.get_recipe("claude-code").plan(connect.Target(url=hole.url, home=claude.place.home))
        )
        path = claude.place.settings
        path.write_text(re.sub(r'"timeout": \d+', '"timeout": 2', path.read_text()))
        result = claude.start("touch", "--allowedTools", "Bash").finish()
    assert not (claude.project / "ran.txt").exists() and hole.swallowed, result
    assert "hook" in claude.model.results["toolu_t"]


def test_the_hook_denies_where_the_program_would_run_a_tool_whose_hook_failed(server: Server, claude: Claude) -> None:
    """Versions before 2.1.295 know no `onFailure`: without a server the hook's own answer is a deny."""
    path = claude.place.settings
    path.write_text(path.read_text().replace('"onFailure": "block"', '"onFailure": "continue"'))
    server.stop()
    try:
        claude.start("touch", "--allowedTools", "Bash").finish()
    finally:
        server.start()
    assert not (claude.project / "ran.txt").exists()
    assert "gave no valid answer" in claude.model.results["toolu_t"]


LIES = (
    "status 201 Created", "status 206 Partial Content", "HTML", "compressed though nobody asked", "a bomb", "too long",
    "too long in chunks", "cut off", "a key twice", "a redirect 307",
)  # fmt: skip


def test_nothing_runs_on_a_bad_answer(program: Path, tmp_path: Path) -> None:
    """Of these Claude Code's own HTTP hooks run the tool on eight."""
    with Gate({"Bash": "allow"}) as gate:
        place = claude_code.place(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in LIES):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            Claude(program, place).start("touch", "--allowedTools", "Bash").finish()
            assert not (place.project / "ran.txt").exists(), row
            assert "no valid answer" in place.model.results["toolu_t"]
        gate.tamper = lambda stage, honest: None
        Claude(program, place).start("touch").finish()
        assert (place.project / "ran.txt").exists()
        place.model.close()


def test_with_a_key_that_was_revoked_nothing_runs(server: Server, claude: Claude) -> None:
    target = connect.Target(url=server.base, key="tck_nobodys_key", home=claude.place.home)
    connect.write_changes(connect.get_recipe("claude-code").plan(target))
    claude.start("touch", "--allowedTools", "Bash").finish()
    assert not (claude.project / "ran.txt").exists()
