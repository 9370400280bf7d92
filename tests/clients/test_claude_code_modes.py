"""The real Claude Code in each permission mode: what is held here is held, and what is approved here runs.

Same version, scripts and connection as in test_claude_code, which plays the default mode.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import claude as claude_code
from tests.clients.claude import Claude
from tests.clients.terminal import Terminal
from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from toolcards.core.policy.language.presets import PRESETS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
MODES = ("default", "acceptEdits", "plan", "auto", "bypassPermissions", "dontAsk")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


@pytest.fixture
def claude(server: Server, tmp_path: Path) -> Iterator[Claude]:
    session = Claude(claude_code.program(), claude_code.place(tmp_path, server.base, server.key))
    yield session
    if session.process is not None and session.process.poll() is None:
        session.process.kill()
        session.process.wait()
    session.model.close()


@pytest.mark.parametrize("mode", MODES)
def test_parallel_calls_that_a_rule_asks_about_are_held_in_each_mode(server: Server, claude: Claude, mode: str) -> None:
    claude.start("parallel-asks", "--permission-mode", mode)
    gating.vote(server, claude.session, "approve")
    gating.vote(server, claude.session, "deny", reason="one is enough")
    claude.finish()
    cards = gating.calls(server, claude.session)
    assert sorted(card["state"] for card in cards.values()) == ["output-available", "output-denied"]
    assert all(card["approval"]["by"]["kind"] == "human" and not card["anomalies"] for card in cards.values())
    words = {call: "ask" if cards[call]["state"] == "output-available" else "one is enough" for call in cards}
    assert {call: word for call, word in words.items() if word in claude.model.results[call]} == words


@pytest.mark.parametrize("mode", MODES)
def test_what_a_rule_denies_runs_in_no_mode(server: Server, claude: Claude, mode: str) -> None:
    claude.start("deny", "--permission-mode", mode).finish()
    assert gating.calls(server, claude.session)["toolu_no"]["state"] == "output-denied"
    assert "Not allowed here. Try something else." in claude.model.results["toolu_no"]


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_an_edit_that_the_mode_accepts_is_not_asked_about(server: Server, claude: Claude, mode: str) -> None:
    claude.start("write", "--permission-mode", mode).finish()
    card = gating.calls(server, claude.session)["toolu_w"]
    assert (card["state"], card["approval"]) == ("output-available", None)
    assert (claude.project / "out.txt").read_text() == "hi\n"


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_command_in_the_background_is_held_until_a_person_answers(server: Server, claude: Claude, mode: str) -> None:
    claude.start("background", "--permission-mode", mode)
    gating.vote(server, claude.session, "approve")
    claude.finish()
    card = gating.calls(server, claude.session)["toolu_bg"]
    assert (card["state"], card["approval"]["state"], card["anomalies"]) == ("output-available", "succeeded", [])
    assert "in background" in claude.model.results["toolu_bg"]


def test_a_plan_that_is_approved_here_ends_plan_mode_there(server: Server, tmp_path: Path) -> None:
    place = claude_code.place(tmp_path, server.base, server.key)
    place.at_home()
    with at_terminal(place, "plan", "--permission-mode", "plan") as (run, terminal):
        assert gating.waiting(server, run)["call_id"] == "toolu_plan"
        gating.vote(server, run, "approve")
        until(lambda: "toolu_plan" in place.model.results, PATIENCE)
        assert "User has approved" in place.model.results["toolu_plan"], terminal.screen
        assert gating.waiting(server, run)["call_id"] == "toolu_w"
        gating.vote(server, run, "approve")
        until(lambda: gating.calls(server, run)["toolu_w"]["state"] == "output-available", PATIENCE)
    assert (place.project / "out.txt").read_text() == "hi\n"
    place.model.close()


@pytest.fixture(scope="module")
def following_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("following")) as running:
        gating.activate(running, dict(PRESETS["follow-the-agent"].document))
        yield running


@pytest.fixture
def project_folder() -> Iterator[Path]:
    """Give a folder that may be a project: nothing in `/dev/shm` is one, where tests may have theirs."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(("mode", "is_asked"), [("default", True), ("acceptEdits", False)])
def test_under_follow_the_agent_an_edit_is_asked_about_where_the_mode_asks(
    following_server: Server, project_folder: Path, mode: str, is_asked: bool
) -> None:
    place = claude_code.place(project_folder, following_server.base, following_server.key)
    claude = Claude(claude_code.program(), place)
    claude.start("write", "--permission-mode", mode)
    if is_asked:
        gating.vote(following_server, claude.session, "approve")
    claude.finish()
    card = gating.calls(following_server, claude.session)["toolu_w"]
    assert (card["state"], card["approval"] is not None, card["decision"]["effect"]) == (
        "output-available", is_asked, "allow",
    )  # fmt: skip
    assert (place.project / "out.txt").read_text() == "hi\n"
    place.model.close()


@contextlib.contextmanager
def at_terminal(place: claude_code.Place, scenario: str, *flags: str) -> Iterator[tuple[str, Terminal]]:
    """Give the run and the terminal of a session that has begun."""
    run = str(uuid.uuid4())
    command = [str(claude_code.program()), "--session-id", run, "--model", "claude-sonnet-4-5", *flags]
    terminal = Terminal([*command, f"SCENARIO:{scenario}"], cwd=place.project, env=place.env)
    try:
        yield run, terminal
    finally:
        terminal.close()
