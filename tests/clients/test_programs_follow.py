"""Programs with command hooks under *Follow the agent*: what is left to them, asked about and denied.

Same versions, models and connections as in test_command_hooks and test_cline. What Toolcards leaves to a program is
decided by its own flags, which allow everything in these tests.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import command_hooks
from tests.clients.cline import Cline
from tests.clients.command_hooks import Copilot, Gemini, Place
from tests.support import gating
from tests.support.server import Server, until
from toolcards.core.policy.language.presets import PRESETS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
SCRIPTS = {
    "look": [["ls -a"]],
    "edit": [["write hello"]],
    "project": [["mkdir -p out && touch ran.txt"]],
    "outside": [["curl -s -d x http://127.0.0.1:9/; touch ran.txt"]],
    "harm": [["rm -rf ~ && touch ran.txt"]],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, dict(PRESETS["follow-the-agent"].document))
        yield running


@pytest.fixture(params=[Gemini, Copilot, Cline], ids=lambda program: program.name)
def place(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A session in a folder that can be a project: the suite's own may be below /dev."""
    for name, value in SCRIPTS.items():
        monkeypatch.setitem(command_hooks.SCRIPTS, name, value)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="toolcards-") as folder:
        created = request.param(Path(folder), server.base, server.key)
        yield created
        created.stop()


def find_card(server: Server, place: Place, state: str) -> dict[str, Any]:
    """Return the one call of this place once it is in that state."""

    def look() -> dict[str, Any] | None:
        for run in server.get("/api/v1/runs?limit=200")["runs"]:
            for card in gating.calls(server, run["run"]).values():
                if card["state"] == state and card["id"] not in known_calls:
                    return card
        return None

    card: dict[str, Any] = until(look)
    known_calls.add(card["id"])
    return card


known_calls: set[str] = set()  # calls of earlier tests


@pytest.mark.parametrize("scenario", ["look", "edit"])
def test_looks_and_edits_in_the_project_are_left_to_the_program(server: Server, place: Place, scenario: str) -> None:
    place.start(scenario).finish()
    card = find_card(server, place, "output-available")
    assert (card["approval"], card["decision"]["by"]["kind"], place.ran) == (None, "default", scenario == "edit")


def test_a_command_in_the_project_is_left_to_programs_whose_hooks_name_its_folder(server: Server, place: Place) -> None:
    place.start("project")
    if place.name == "copilot":  # its shell keeps its folder, which its hooks do not name
        assert find_card(server, place, "approval-requested")["decision"]["rule"] == "ask-outside"
        return
    place.finish()
    card = find_card(server, place, "output-available")
    assert (card["approval"], card["decision"]["by"]["kind"], place.ran) == (None, "default", True)


def test_what_leaves_the_project_waits_for_a_person(server: Server, place: Place) -> None:
    place.start("outside")
    card = find_card(server, place, "approval-requested")
    assert card["decision"]["rule"] == "ask-outside" and not place.ran
    gating.vote(server, card["run"], "approve")
    place.finish()
    assert place.ran


def test_what_an_agent_never_needs_to_do_is_denied(server: Server, place: Place) -> None:
    place.start("harm").finish()
    card = find_card(server, place, "output-denied")
    assert card["approval"] is None and not place.ran
