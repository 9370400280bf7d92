"""The real Claude Code at a terminal, as a person has it: questions on its screen, Esc, and a next prompt.

Same version, scripts and connection as in test_claude_code, which plays the headless sessions.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import claude as claude_code
from tests.clients.terminal import Terminal
from tests.support import gating
from tests.support.server import Server, until
from tests.support.silent_server import Hole
from tests.support.voter import Voter

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
ESC, ENTER = "\x1b", "\r"
PATIENCE = 60  # seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


class Session:
    """A session at a terminal, begun with a prompt."""

    def __init__(self, place: claude_code.Place, server: Server, scenario: str, *flags: str) -> None:
        self.place, self.run, self._server = place, str(uuid.uuid4()), server
        command = [str(claude_code.program()), "--session-id", self.run, "--model", "claude-sonnet-4-5", *flags]
        self.terminal = Terminal([*command, f"SCENARIO:{scenario}"], cwd=place.project, env=place.env)

    def card(self, call: str) -> dict[str, Any]:
        """Return the card, {} until it exists."""
        result: dict[str, Any] = gating.calls(self._server, self.run).get(call, {})
        return result

    def await_state(self, call: str, state: str) -> dict[str, Any]:
        """Return the card once it is in this state."""
        until(lambda: self.card(call).get("state") == state, PATIENCE)
        return self.card(call)

    def wait_for_result(self, call: str) -> str:
        """Wait for the result of the call that the model received, and return it."""
        until(lambda: call in self.place.model.results, PATIENCE)
        return self.place.model.results[call]

    def sees(self, words: str) -> None:
        """Wait until these words are on the screen."""
        until(lambda: words in self.terminal.screen, PATIENCE)


@pytest.fixture
def claude(server: Server, tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Give `claude(scenario, flags…)`: a session that has begun."""
    place = claude_code.place(tmp_path, server.base, server.key)
    place.at_home()
    sessions: list[Session] = []

    def begin(scenario: str, *flags: str) -> Session:
        sessions.append(Session(place, server, scenario, *flags))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.terminal.close()
    place.model.close()


def test_a_persons_yes_lets_the_held_call_run_and_leaving_ends_the_run(
    server: Server, claude: Callable[..., Session]
) -> None:
    session = claude("ask")
    gating.vote(server, session.run, "approve")
    assert session.wait_for_result("toolu_ask") == "ask"
    card = session.await_state("toolu_ask", "output-available")
    assert (card["approval"]["by"]["kind"], card["approval"]["state"], card["anomalies"]) == ("human", "succeeded", [])
    session.sees("Done.")
    session.terminal.press("/exit" + ENTER)
    until(lambda: server.get(f"/api/v1/runs/{session.run}")["status"] == "finished", PATIENCE)


def test_a_persons_no_reaches_the_model(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("ask")
    gating.vote(server, session.run, "deny", reason="not on a Friday")
    assert "A person declined: not on a Friday" in session.wait_for_result("toolu_ask")
    assert session.await_state("toolu_ask", "output-denied")["approval"]["by"]["kind"] == "human"


def test_what_a_person_edited_is_what_runs(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("ask")
    edited = {"command": "echo edited", "description": "run toolu_ask"}
    gating.vote(server, session.run, "edit", edited=edited)
    assert session.wait_for_result("toolu_ask") == "edited"
    assert session.await_state("toolu_ask", "output-available")["input"] == edited


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"answer-0": "1"}, '"Which color?"="Blue"'),
        ({"answer-0-text": "none of them"}, '"Which color?"="none of them"'),
    ],
)
def test_a_question_to_the_user_is_answered_from_the_inbox(
    server: Server, claude: Callable[..., Session], fields: dict[str, str], words: str
) -> None:
    session = claude("question")
    status, page = answer(server, gating.waiting(server, session.run), **fields)
    assert status == 200, page[:1000]
    assert words in session.wait_for_result("toolu_q")
    card = session.await_state("toolu_q", "output-available")
    assert (card["approval"]["by"]["kind"], card["anomalies"]) == ("human", [])
    session.sees("Done.")


def answer(server: Server, call: dict[str, Any], **fields: str) -> tuple[int, str]:
    """Answer the call's questions, by the form that a person uses."""
    fields = {"decision": "answer"} | fields | {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"]}
    return Voter(server).post(f"/approvals/{call['approval']['id']}/vote", page="/approvals/", **fields)


def test_a_question_that_is_answered_at_the_terminal_waits_here_no_more(
    server: Server, claude: Callable[..., Session]
) -> None:
    session = claude("question")
    call = gating.waiting(server, session.run)
    session.sees("Type something")
    session.terminal.press(ENTER)
    assert '"Which color?"="Red"' in session.wait_for_result("toolu_q")
    assert session.await_state("toolu_q", "output-available")["approval"]["by"]["kind"] == "host"
    assert answer(server, call, **{"answer-0": "1"})[0] in {409, 410, 412}


def test_a_question_that_is_denied_here_is_not_asked_there(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("question")
    gating.vote(server, session.run, "deny", reason="decide yourself")
    assert "decide yourself" in session.wait_for_result("toolu_q")


def test_a_question_cannot_be_approved_without_an_answer(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("question")
    call = gating.waiting(server, session.run)
    status, page = answer(server, call, decision="approve")
    assert status == 422 and "answer it, or deny" in page
    assert session.card("toolu_q")["state"] == "approval-requested"


def test_esc_withdraws_the_request_and_the_session_continues(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("ask")
    gating.waiting(server, session.run)
    session.terminal.press(ESC)
    card = session.await_state("toolu_ask", "output-error")
    assert (card["cause"], card["approval"]["state"]) == ("aborted", "cancelled")
    session.sees("Interrupted")
    session.terminal.press("SCENARIO:success")
    session.sees("SCENARIO:success")
    session.terminal.press(ENTER)
    assert session.wait_for_result("toolu_ok") == "hello" and session.wait_for_result("toolu_ask") != "ask"
    session.await_state("toolu_ok", "output-available")


def test_esc_while_a_tool_runs_is_seen_at_the_next_prompt(claude: Callable[..., Session]) -> None:
    """No hook reports the interruption itself."""
    session = claude("long")
    until((session.place.project / "started").exists, PATIENCE)
    session.terminal.press(ESC)
    session.sees("Interrupted")
    session.terminal.press("SCENARIO:success")
    session.sees("SCENARIO:success")
    session.terminal.press(ENTER)
    session.wait_for_result("toolu_ok")
    assert session.await_state("toolu_l", "output-error")["cause"] == "aborted"


@pytest.mark.parametrize(("decision", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_the_question_on_the_screen_is_answered_here(
    server: Server, claude: Callable[..., Session], decision: str, state: str
) -> None:
    session = claude("write")
    session.sees("Do you want to create")
    gating.vote(server, session.run, decision, reason="because")
    result = session.wait_for_result("toolu_w")
    assert session.await_state("toolu_w", state)["approval"]["by"]["kind"] == "human"
    assert (session.place.project / "out.txt").exists() is (decision == "approve")
    assert decision == "approve" or "because" in result


def test_the_question_on_the_screen_is_answered_there(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("write")
    gating.waiting(server, session.run)
    session.sees("Do you want to create")
    session.terminal.press(ENTER)
    session.wait_for_result("toolu_w")
    card = session.await_state("toolu_w", "output-available")
    assert (card["approval"]["by"]["kind"], card["anomalies"]) == ("host", [])
    assert (session.place.project / "out.txt").exists()


def test_esc_at_the_question_withdraws_it_here(server: Server, claude: Callable[..., Session]) -> None:
    session = claude("write")
    gating.waiting(server, session.run)
    session.sees("Do you want to create")
    session.terminal.press(ESC)
    card = session.await_state("toolu_w", "output-error")
    assert (card["cause"], card["approval"]["state"]) == ("aborted", "cancelled")
    assert not (session.place.project / "out.txt").exists()


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(
    server: Server, claude: Callable[..., Session]
) -> None:
    server.stop()
    try:
        session = claude("touch", "--allowedTools=Bash")
        result = session.wait_for_result("toolu_t")
    finally:
        server.start()
    assert "gave no valid answer" in result and "Connection refused" in result
    assert not (session.place.project / "ran.txt").exists()


def test_a_server_that_hangs_holds_no_hook_that_only_tells_and_the_program_says_so(tmp_path: Path) -> None:
    """Only the hooks that watch: what gates is not asked here."""
    with Hole() as hole:
        place = claude_code.place(tmp_path, hole.url, "tck_nobody_listens")
        place.at_home()
        settings = json.loads(place.settings.read_text())
        for event in ("PreToolUse", "PermissionRequest"):
            del settings["hooks"][event]
        place.settings.write_text(json.dumps(settings))
        command = [str(claude_code.program()), "--session-id", str(uuid.uuid4()), "--model", "claude-sonnet-4-5"]
        terminal = Terminal([*command, "--allowedTools=Bash", "SCENARIO:success"], cwd=place.project, env=place.env)
        try:
            until(lambda: "Done." in terminal.screen, PATIENCE)
            assert "Toolcards did not receive" in terminal.screen and hole.swallowed
        finally:
            terminal.close()
            place.model.close()
