"""The real Goose, connected as `connect` connects it, with a model that says what we want.

1.52.0 is what these tests run, without an account: with an OpenAI API on loopback.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, npm
from tests.clients.command_hooks import SCRIPTS, Place
from tests.clients.models import Call
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import Server, until
from tests.support.silent_server import Hole

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
EXTRA: dict[str, models.Script] = {
    "again": [[Call("call_0", "shell", {"command": "echo one >> ran.txt"})] for _ in range(2)] + [["Done."]],
    "delegate": [[Call("call_d", "delegate", {"instructions": "SCENARIO:deny"})], ["Done."]],
}


class Goose(Place):
    name, title, tool = "goose", "Goose", "shell"
    version = "1.52.0"

    def prepare(self) -> None:
        scripts = {name: [*map(self._turn, range(len(turns)), turns), ["Done."]] for name, turns in SCRIPTS.items()}
        self.model = models.openai(scripts | EXTRA)

    def _turn(self, number: int, commands: list[str]) -> models.Turn:
        return [self._call(f"call_{number}_{index}", command) for index, command in enumerate(commands)]

    def _call(self, call_id: str, command: str) -> Call:
        if command.startswith("write "):
            return Call(call_id, "write", {"path": "ran.txt", "content": command.removeprefix("write ")})
        return Call(call_id, self.tool, {"command": command})

    def command(self, prompt: str) -> list[str]:
        package = "@aaif/goose-binary-linux-x64"
        modules = npm.installed("goose", aaif__goose_binary_linux_x64=self.version)
        return [str(modules / package / "bin" / "goose"), "run", "--with-builtin", "developer", "-t", prompt]

    def env(self) -> dict[str, str]:
        model = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-4o", "OPENAI_API_KEY": "none"}
        switches = {"GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}
        return {"OPENAI_HOST": self.model.base, **model, **switches}

    def results(self) -> list[str]:
        return [self.model.results[call] for call in sorted(self.model.results)]

    def stop(self) -> None:
        super().stop()
        self.model.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool=Goose.tool, field="/command"))
        yield running


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Goose]:
    created = Goose(tmp_path, server.base, server.key)
    yield created
    created.stop()


def find_run(server: Server, scenario: str, state: str = "") -> str:
    """Return the run with this scenario as its prompt, and a card in this state."""
    runs = server.request("GET", "/api/v1/runs?limit=200")[1]["runs"]
    for run in (run["run"] for run in runs if run["title"] == f"SCENARIO:{scenario}"):
        if not state or any(card["state"] == state for card in gating.calls(server, run).values()):
            return str(run)
    return ""


def finish(server: Server, place: Place, scenario: str) -> list[dict[str, Any]]:
    """Return the cards of the scenario's run once it has ended, in order."""
    place.start(scenario).finish()
    run = until(lambda: find_run(server, scenario))
    until(lambda: server.request("GET", f"/api/v1/runs/{run}")[1].get("status") in {"finished", "aborted"})
    return list(gating.calls(server, run).values())


def test_a_success_is_shown_under_gooses_name_and_the_run_ends(server: Server, place: Goose) -> None:
    (card,) = finish(server, place, "success")
    assert (card["state"], card["tool"]["name"], card["tool"]["kind"]) == ("output-available", "shell", "execute")
    assert "do not have the result" in card["output"] and not card["anomalies"]
    response = server.get(f"/api/v1/runs/{find_run(server, 'success')}")
    assert (response["agent"], response["status"], place.output) == ("Goose", "finished", "hello")


def test_a_rules_no_reaches_the_model(server: Server, place: Goose) -> None:
    (card,) = finish(server, place, "deny")
    assert (card["state"], card["decision"]["rule"], place.ran) == ("output-denied", "no", False)
    assert "Not allowed here. Try something else." in place.results()[0]


@pytest.mark.parametrize(("vote", "expected_output", "words"), [
    ("approve", "ask", ""), ("deny", "", "A person declined: because"), ("edit", "", "echo edited > ran.txt"),
])  # fmt: skip
def test_a_persons_answer_is_obeyed(server: Server, place: Goose, vote: str, expected_output: str, words: str) -> None:
    place.start("ask")
    run = until(lambda: find_run(server, "ask", "approval-requested"))
    edited = gating.waiting(server, run)["input"] | {"command": "echo edited > ran.txt"} if vote == "edit" else None
    gating.vote(server, run, vote, reason="because", edited=edited)
    place.finish()
    assert place.output == expected_output and words in place.results()[0]


def test_equal_calls_and_ids_that_come_again_are_calls_of_their_own(server: Server, place: Goose) -> None:
    cards = finish(server, place, "equal") + finish(server, place, "again")
    assert [card["state"] for card in cards] == ["output-available"] * 4
    assert place.output.split() == ["one"] * 4 and len({card["call_id"] for card in cards}) == 4


def test_large_arguments_are_judged_whole(server: Server, place: Goose) -> None:
    (card,) = finish(server, place, "large")
    assert card["state"] == "output-available" and len(place.output) == 200_000
    assert max(len(str(value)) for value in card["input"].values()) == 200_000


def test_a_command_that_fails_is_shown_as_failed(server: Server, place: Goose) -> None:
    (card,) = finish(server, place, "failure")
    assert card["state"] == "output-error" and "do not say why" in json.dumps(card)


def test_a_sub_agents_calls_have_no_hook_so_only_its_start_is_held(server: Server, place: Goose) -> None:
    """What the connect page and the guide say of it; a Goose that holds them makes this test fail."""
    (card,) = finish(server, place, "delegate")
    assert (card["tool"]["name"], card["state"], place.output) == ("delegate", "output-available", "forbidden")


def test_a_server_that_is_killed_while_a_person_is_asked_runs_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Server(tmp_path_factory.mktemp("killed")) as running:
        gating.activate(running, gating.policy(tool=Goose.tool, field="/command"))
        place = Goose(tmp_path, running.base, running.key)
        place.start("ask")
        until(lambda: find_run(running, "ask", "approval-requested"))
        running.kill()
        place.finish()
        assert not place.ran and "gave no valid answer" in place.results()[0]
        place.stop()


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    place = Goose(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    place.start("touch").finish()
    assert not place.ran and "gave no valid answer" in place.results()[0]
    place.stop()


@pytest.mark.parametrize(("text", "broken"), [
    (" hook ", " no-such-command "), ("exit 2; }", "exit 3; }"), ('"command": "', '"command": "sleep 60; '),
])  # fmt: skip
def test_a_hook_that_fails_or_takes_too_long_runs_nothing(tmp_path: Path, text: str, broken: str) -> None:
    place = Goose(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    (path,) = place.home.rglob("hooks.json")
    path.write_text(path.read_text().replace(text, broken).replace("960", "2").replace(" --by ", " --no-such-word "))
    place.start("touch").finish()
    assert not place.ran
    place.stop()


def test_a_server_that_hangs_holds_no_hook_that_only_reports(tmp_path: Path) -> None:
    with Hole() as hole:
        place = Goose(tmp_path, hole.url, "tck_nobody_listens")
        (path,) = place.home.rglob("hooks.json")
        path.write_text(path.read_text().replace('"PreToolUse"', '"PreToolUseResult"'))
        place.start("touch").finish()
        assert place.ran and hole.swallowed
        place.stop()


def test_nothing_runs_on_a_bad_answer(tmp_path: Path) -> None:
    with Gate({Goose.tool: "allow"}) as gate:
        place = Goose(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in {"HTML", "cut off"}):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            place.start("touch").finish()
            assert not place.ran and "no valid answer" in place.results()[0], row
        gate.tamper = lambda stage, honest: None
        place.start("touch").finish()
        assert place.ran
        place.stop()
