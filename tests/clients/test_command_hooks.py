"""The real Gemini CLI and the real GitHub Copilot CLI, connected as `connect` connects them.

0.61.0 and 1.0.102 are what these tests run, without an account. Their hooks name no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.command_hooks import Copilot, Gemini, Place
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import Server, until
from tests.support.silent_server import Hole

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
PROGRAMS: list[type[Place]] = [Gemini, Copilot]


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> type[Place]:
    result: type[Place] = request.param
    return result


@pytest.fixture(scope="module")
def server(kind: type[Place], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool=kind.tool, field="/command"))
        yield running


@pytest.fixture
def place(kind: type[Place], server: Server, tmp_path: Path) -> Iterator[Place]:
    created = kind(tmp_path, server.base, server.key)
    yield created
    created.stop()


def newest_run(server: Server, title: str) -> str:
    """Return the run that has this prompt as its title."""

    def look() -> str:
        runs = server.request("GET", "/api/v1/runs?limit=200")[1]["runs"]
        return next((run["run"] for run in runs if run["title"] == title), "")

    run: str = until(look)
    return run


def await_run_end(server: Server, place: Place, scenario: str) -> list[dict[str, Any]]:
    """Return the cards of the scenario's run once it has ended, in order."""
    place.finish()
    run = newest_run(server, f"SCENARIO:{scenario}")
    until(lambda: server.request("GET", f"/api/v1/runs/{run}")[1].get("status") in {"finished", "aborted"})
    return list(gating.calls(server, run).values())


def test_a_success_is_shown_under_the_agents_name_and_the_run_ends(server: Server, place: Place) -> None:
    (card,) = await_run_end(server, place.start("success"), "success")
    assert (card["state"], card["tool"]["name"], card["tool"]["kind"]) == ("output-available", place.tool, "execute")
    assert card["input"]["command"] == "echo hello > ran.txt; echo hello" and "hello" in card["output"]
    response = server.get(f"/api/v1/runs/{newest_run(server, 'SCENARIO:success')}")
    assert (response["agent"], response["status"], place.output) == (place.title, "finished", "hello")


def test_a_rules_no_reaches_the_model(server: Server, place: Place) -> None:
    (card,) = await_run_end(server, place.start("deny"), "deny")
    assert (card["state"], card["decision"]["rule"], place.ran) == ("output-denied", "no", False)
    assert "Not allowed here. Try something else." in place.results()[0]


@pytest.mark.parametrize(("vote", "expected_output"), [("approve", "ask"), ("deny", ""), ("edit", "edited")])
def test_a_persons_answer_is_obeyed(server: Server, place: Place, vote: str, expected_output: str) -> None:
    place.start("ask")
    title = "SCENARIO:ask"
    run = until(lambda: waiting_run(server, title))
    edited = gating.waiting(server, run)["input"] | {"command": "echo edited > ran.txt"} if vote == "edit" else None
    gating.vote(server, run, vote, reason="because", edited=edited)
    place.finish()
    assert place.output == expected_output and (expected_output or "A person declined: because" in place.results()[0])
    (card,) = gating.calls(server, run).values()
    assert card["state"] == ("output-available" if expected_output else "output-denied") and not card["anomalies"]


def waiting_run(server: Server, title: str) -> str:
    """Return the run with this title that has a call that waits."""
    runs = server.request("GET", "/api/v1/runs?limit=200")[1]["runs"]
    states = ((run["run"], gating.calls(server, run["run"])) for run in runs if run["title"] == title)
    return next((run for run, cards in states if any(c["state"] == "approval-requested" for c in cards.values())), "")


def test_equal_calls_are_calls_of_their_own(server: Server, place: Place) -> None:
    cards = await_run_end(server, place.start("equal"), "equal")
    assert [card["state"] for card in cards] == ["output-available"] * 3
    assert place.output.split() == ["one"] * 3 and len({card["call_id"] for card in cards}) == 3


def test_a_call_that_waits_stops_no_other_from_being_judged(server: Server, place: Place) -> None:
    place.start("both")
    run = until(lambda: waiting_run(server, "SCENARIO:both"))
    gating.vote(server, run, "deny")
    place.finish()
    states = sorted(card["state"] for card in gating.calls(server, run).values())
    assert states == ["output-available", "output-denied"]
    assert place.output == "free" and not (place.project / "asked.txt").exists()


def test_large_arguments_are_judged_whole(server: Server, place: Place) -> None:
    (card,) = await_run_end(server, place.start("large"), "large")
    assert card["state"] == "output-available" and len(place.output) == 200_000
    assert max(len(str(value)) for value in card["input"].values()) == 200_000


def test_a_command_that_fails_is_shown_with_its_exit_code(server: Server, place: Place) -> None:
    (card,) = await_run_end(server, place.start("failure"), "failure")
    assert card["state"] == "output-available" and "3" in card["output"]


def test_a_server_that_is_killed_while_a_person_is_asked_runs_nothing(
    kind: type[Place], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Server(tmp_path_factory.mktemp("killed")) as running:
        gating.activate(running, gating.policy(tool=kind.tool, field="/command"))
        place = kind(tmp_path, running.base, running.key)
        place.start("ask")
        until(lambda: waiting_run(running, "SCENARIO:ask"))
        running.kill()
        place.finish()
        assert not place.ran and "gave no valid answer" in place.results()[0]
        place.stop()


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(kind: type[Place], tmp_path: Path) -> None:
    place = kind(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    place.start("touch").finish()
    assert not place.ran and "gave no valid answer" in place.results()[0]
    place.stop()


def test_a_hook_that_cannot_start_runs_nothing(kind: type[Place], tmp_path: Path) -> None:
    place = kind(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    for path in (*place.home.rglob("settings.json"), *place.home.rglob("toolcards.json")):
        path.write_text(path.read_text().replace(" hook ", " no-such-command "))
    place.start("touch").finish()
    assert not place.ran
    place.stop()


def test_a_server_that_hangs_holds_no_hook_that_only_reports(kind: type[Place], tmp_path: Path) -> None:
    with Hole() as hole:
        place = kind(tmp_path, hole.url, "tck_nobody_listens")
        for path in (*place.home.rglob("settings.json"), *place.home.rglob("toolcards.json")):
            path.write_text(
                path.read_text().replace('"BeforeTool"', '"PreCompress"').replace("preToolUse", "notification")
            )
        place.start("touch").finish()
        assert place.ran and hole.swallowed
        place.stop()


def test_nothing_runs_on_a_bad_answer(kind: type[Place], tmp_path: Path) -> None:
    lies = {"HTML", "cut off"}
    with Gate({kind.tool: "allow"}) as gate:
        place = kind(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in lies):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            place.start("touch").finish()
            assert not place.ran and "no valid answer" in place.results()[0], row
        gate.tamper = lambda stage, honest: None
        place.start("touch").finish()
        assert place.ran
        place.stop()
