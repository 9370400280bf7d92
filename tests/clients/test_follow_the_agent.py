"""The real Claude Code under *Follow the agent*: its mode decides, and only what leaves the project is held here.

Same version, scripts and connection as in test_claude_code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import claude as claude_code
from tests.clients.claude import Claude
from tests.support import gating
from tests.support.server import Server
from toolcards.core.policy.language.presets import PRESETS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, dict(PRESETS["follow-the-agent"].document))
        yield running


@pytest.fixture
def claude(server: Server) -> Iterator[Claude]:
    """A session in a folder that can be a project: the suite's own may be below /dev."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="toolcards-") as folder:
        yield from play(server, Path(folder))


def play(server: Server, folder: Path) -> Iterator[Claude]:
    session = Claude(claude_code.program(), claude_code.place(folder, server.base, server.key))
    yield session
    if session.process is not None and session.process.poll() is None:
        session.process.kill()
        session.process.wait()
    session.model.close()


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "auto"])
def test_a_command_that_only_looks_is_held_in_no_mode(server: Server, claude: Claude, mode: str) -> None:
    claude.start("success", "--permission-mode", mode).finish()
    card = gating.calls(server, claude.session)["toolu_ok"]
    assert (card["state"], card["approval"]) == ("output-available", None)


def test_an_edit_in_the_project_that_the_mode_accepts_is_not_held(server: Server, claude: Claude) -> None:
    claude.start("write", "--permission-mode", "acceptEdits").finish()
    card = gating.calls(server, claude.session)["toolu_w"]
    assert (card["state"], card["approval"], card["decision"]["by"]["kind"]) == ("output-available", None, "default")
    assert (claude.project / "out.txt").read_text() == "hi\n"


def test_an_edit_that_the_mode_asks_about_is_asked_about_here(server: Server, claude: Claude) -> None:
    claude.start("write", "--permission-mode", "default")
    gating.vote(server, claude.session, "approve")
    claude.finish()
    card = gating.calls(server, claude.session)["toolu_w"]
    assert (card["state"], card["decision"]["effect"], card["approval"]["by"]["kind"]) == (
        "output-available",
        "allow",
        "human",
    )
    assert (claude.project / "out.txt").read_text() == "hi\n"
