"""The real Cline CLI, connected as `connect` connects it, with a model that says what we want.

3.0.65 is what these tests run, without an account: with an OpenAI-style provider on loopback, and without Cline's hub,
which would go on after the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cline import Cline
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import Server, until
from tests.support.silent_server import Hole
from toolcards.connect.programs import cline

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool=Cline.tool, field="/commands/0"))
        yield running


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Cline]:
    created = Cline(tmp_path, server.base, server.key)
    yield created
    created.stop()


def list_runs(server: Server) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = server.request("GET", "/api/v1/runs?limit=200")[1]["runs"]
    return runs


def start(server: Server, place: Cline, scenario: str) -> str:
    """Start it, and return its run once a call of it is known; its hooks do not say the prompt."""
    known_runs = {run["run"] for run in list_runs(server)}
    place.start(scenario)

    def look() -> str:
        new = (each["run"] for each in list_runs(server) if each["run"] not in known_runs)
        return next((each for each in new if gating.calls(server, each)), "")

    new_run: str = until(look)
    return new_run


def finish(server: Server, place: Cline, scenario: str) -> list[dict[str, Any]]:
    """Return the cards of the scenario's run once nothing of it is open, in order."""
    run = start(server, place, scenario)
    place.finish()
    end_states = ("output-available", "output-error", "output-denied")
    until(lambda: all(card["state"] in end_states for card in gating.calls(server, run).values()))
    return list(gating.calls(server, run).values())


def test_a_success_is_shown_under_clines_name(server: Server, place: Cline) -> None:
    (card,) = finish(server, place, "success")
    assert (card["state"], card["tool"]["name"], card["tool"]["kind"]) == ("output-available", place.tool, "execute")
    assert "hello" in json.dumps(card["output"]) and not card["anomalies"]
    newest = list_runs(server)[0]
    assert (newest["agent"], place.output) == ("Cline", "hello")
    until(lambda: list_runs(server)[0]["status"] == "finished")


def test_a_rules_no_ends_the_run_and_runs_nothing(server: Server, place: Cline) -> None:
    (card,) = finish(server, place, "deny")
    assert (card["state"], card["decision"]["rule"], place.ran, place.results()) == ("output-denied", "no", False, [])


@pytest.mark.parametrize(("vote", "expected_output"), [("approve", "ask"), ("deny", ""), ("edit", "edited")])
def test_a_persons_answer_is_obeyed(server: Server, place: Cline, vote: str, expected_output: str) -> None:
    run = start(server, place, "ask")
    until(lambda: any(card["state"] == "approval-requested" for card in gating.calls(server, run).values()))
    edited = gating.waiting(server, run)["input"] | {"commands": ["echo edited > ran.txt"]} if vote == "edit" else None
    gating.vote(server, run, vote, reason="because", edited=edited)
    place.finish()
    assert place.output == expected_output
    (card,) = gating.calls(server, run).values()
    assert card["state"] == ("output-available" if expected_output else "output-denied") and not card["anomalies"]


def test_equal_calls_and_ids_that_come_again_are_calls_of_their_own(server: Server, place: Cline) -> None:
    cards = finish(server, place, "equal") + finish(server, place, "again")
    assert [card["state"] for card in cards] == ["output-available"] * 5
    assert place.output.split() == ["one"] * 5 and len({card["call_id"] for card in cards}) == 5


def test_large_arguments_are_judged_whole(server: Server, place: Cline) -> None:
    (card,) = finish(server, place, "large")
    assert "Editor input too large" in json.dumps(card["output"])  # Cline's own limit, after the decision
    assert max(len(str(value)) for value in card["input"].values()) == 200_000


def test_a_sub_agents_calls_are_in_its_parents_run(server: Server, place: Cline) -> None:
    cards = finish(server, place, "delegate")
    assert {card["tool"]["name"] for card in cards} == {"spawn_agent", "run_commands"} and place.output == "hello"


def test_a_server_that_is_killed_while_a_person_is_asked_runs_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Server(tmp_path_factory.mktemp("killed")) as running:
        gating.activate(running, gating.policy(tool=Cline.tool, field="/commands/0"))
        place = Cline(tmp_path, running.base, running.key)
        run = start(running, place, "ask")
        until(lambda: any(card["state"] == "approval-requested" for card in gating.calls(running, run).values()))
        running.kill()
        place.finish()
        assert not place.ran
        place.stop()


def test_without_the_server_nothing_runs(tmp_path: Path) -> None:
    place = Cline(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    place.start("touch").finish()
    assert not place.ran
    place.stop()


@pytest.mark.parametrize("broken", ["exit 3", "no-such-program", "echo no JSON; false"])
def test_a_hook_that_cannot_do_its_work_runs_nothing(tmp_path: Path, broken: str) -> None:
    place = Cline(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    path = place.home / ".cline" / "hooks" / cline.GATE
    path.write_text(re.sub(r"\$\(.*\) &&", lambda match: f"$({broken}) &&", path.read_text()))
    assert f"$({broken})" in path.read_text()
    place.start("touch").finish()
    assert not place.ran
    place.stop()


def test_a_server_that_hangs_holds_no_hook_that_only_reports(tmp_path: Path) -> None:
    with Hole() as hole:
        place = Cline(tmp_path, hole.url, "tck_nobody_listens")
        (place.home / ".cline" / "hooks" / cline.GATE).unlink()
        place.start("touch").finish()
        assert place.ran and hole.swallowed
        place.stop()


def test_nothing_runs_on_a_bad_answer(tmp_path: Path) -> None:
    with Gate({Cline.tool: "allow"}) as gate:
        place = Cline(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in {"HTML", "cut off"}):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            place.start("touch").finish()
            assert not place.ran, row
        gate.tamper = lambda stage, honest: None
        place.start("touch").finish()
        assert place.ran
        place.stop()
