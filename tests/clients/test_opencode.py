"""The real opencode, connected as `connect opencode` connects it, with a model that says what we want.

1.18.33 is what these tests run: one `opencode serve` on loopback with a home of its own, driven over its API.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, npm
from tests.clients.models import Call
from tests.support import gating
from tests.support.bad_answers import make_tamper, rows
from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE, Server, read_address, until
from tests.support.silent_server import Hole
from toolcards import connect

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
VERSION = "1.18.33"
LONG = 'import time; open("started", "w").close(); time.sleep(300)'


def bash(call: str, command: str) -> Call:
    return Call(call, "bash", {"command": command, "description": f"run {call}"})


SCRIPTS: dict[str, models.Script] = {
    "success": [["Let me look.", bash("call_ok", "echo hello")], ["Done."]],
    "error": [[bash("call_err", "exit 3")], ["It failed."]],
    "deny": [[bash("call_no", "echo forbidden")], ["I may not."]],
    "ask": [[bash("call_ask", "echo ask")], ["Done."]],
    "ask-exit": [[bash("call_x", "echo ask; exit 5")], ["It failed."]],
    "write": [[Call("call_w", "write", {"filePath": "out.txt", "content": "hi\n"})], ["Written."]],
    "parallel": [
        [bash("call_p1", "echo one"), bash("call_p2", "exit 7"), Call("call_p3", "read", {"filePath": "nope.txt"})],
        ["One of three."],
    ],
    "unknown": [[Call("call_u", "no_such_tool", {"x": 1})], ["No such tool."]],
    "invalid": [[Call("call_i", "bash", {"cmd": 5})], ["Bad input."]],
    "long": [[bash("call_l", f"python3 -c '{LONG}'")], ["Never."]],
    "words": [["Only words."]],
    "touch": [[bash("call_t", "touch ran.txt")], ["Done."]],
    "agent": [
        [Call("call_a", "task", {"description": "sub", "prompt": "SCENARIO:inner", "subagent_type": "general"})],
        ["Done."],
    ],
    "inner": [[bash("call_in", "echo ask inner")], ["Inner done."]],
    "nested": [
        [Call("call_v", "task", {"description": "sub", "prompt": "SCENARIO:same", "subagent_type": "general"})],
        ["Done."],
    ],
    "nested-ok": [
        [Call("call_v", "task", {"description": "sub", "prompt": "SCENARIO:same-ok", "subagent_type": "general"})],
        ["Done."],
    ],
    "same-ok": [[bash("call_v", "python3 -c 'print(5)'")], [bash("call_v", "echo ask inner")], ["Inner done."]],
    "same": [[bash("call_v", "echo forbidden")], ["Inner done."]],
    "again": [
        [bash("call_w", "echo one")],
        [bash("call_w", "echo forbidden")],
        [bash("call_w", "echo one")],
        ["Done."],
    ],
}


@dataclass
class Opencode:
    """A running `opencode serve`."""

    base: str
    project: Path
    model: models.FakeModel

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
            text = answer.read().decode()
        return json.loads(text) if text else None

    def start(self, scenario: str) -> str:
        """Begin a session with this prompt; return its id, which is the run's name."""
        session = str(self.call("POST", "/session", {"title": scenario})["id"])
        self.call(
            "POST", f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": f"SCENARIO:{scenario}"}]}
        )
        return session

    def abort(self, session: str) -> None:
        self.call("POST", f"/session/{session}/abort")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="bash", field="/command"))
        yield running


@pytest.fixture(scope="module")
def opencode(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opencode]:
    """An opencode that is connected to the server."""
    with running(server.base, server.key, tmp_path_factory) as connected:
        yield connected


@contextlib.contextmanager
def running(url: str, key: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opencode]:
    """Run an opencode that is connected to this server."""
    modules = npm.installed("opencode", opencode_ai=VERSION)
    program = npm.native(modules, "opencode", "bin/opencode")
    home, project = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("project")
    model = models.openai(SCRIPTS)
    (project / "opencode.json").write_text(json.dumps(_settings(model.base)))
    connect.write_changes(connect.get_recipe("opencode").plan(connect.Target(url=url, key=key, home=home)))
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }  # fmt: skip
    command = [str(program), "serve", "--port", "0", "--hostname", "127.0.0.1"]
    log = (home / "log.txt").open("w")
    process = subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield Opencode(_read_base(process), project, model)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()
        model.close()


def _settings(model: str) -> dict[str, Any]:
    options = {"baseURL": f"{model}/v1", "apiKey": "no-key-at-all"}
    fake = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options}
    fake["models"] = {"fake-model": {"name": "Fake", "limit": {"context": 200000, "output": 8000}}}
    return {
        "autoupdate": False, "share": "disabled", "snapshot": False, "model": "fake/fake-model",
        "small_model": "fake/fake-model", "provider": {"fake": fake},
        "permission": {"write": "ask", "edit": "ask", "bash": {"*": "allow"}},
    }  # fmt: skip


def _read_base(process: subprocess.Popen[str]) -> str:
    base, result = read_address(process)
    assert base, f"opencode did not start: {result}"
    return base


def await_run_end(server: Server, run: str, status: str = "finished") -> dict[str, Any]:
    """Return the cards once the run has ended."""

    def look() -> bool:
        code, body, _ = server.request("GET", f"/api/v1/runs/{run}")
        return code == 200 and body["status"] == status

    until(look)
    return gating.calls(server, run)


def test_a_success(server: Server, opencode: Opencode) -> None:
    run = opencode.start("success")
    card = await_run_end(server, run)["call_ok"]
    assert (card["state"], card["tool"]["kind"], card["output"]) == ("output-available", "execute", "hello\n")
    assert (card["decision"]["effect"], card["anomalies"]) == ("allow", [])


def test_a_failing_command_is_an_error(server: Server, opencode: Opencode) -> None:
    card = await_run_end(server, opencode.start("error"))["call_err"]
    assert (card["state"], card["error"]["code"]) == ("output-error", "exit_status")


def test_a_rules_no_reaches_the_model(server: Server, opencode: Opencode) -> None:
    card = await_run_end(server, opencode.start("deny"))["call_no"]
    assert (card["state"], card["anomalies"]) == ("output-denied", [])
    assert "Stopped by Toolcards: Not allowed here. Try something else." in opencode.model.results["call_no"]


def test_a_persons_yes_lets_the_held_call_run(server: Server, opencode: Opencode) -> None:
    run = opencode.start("ask")
    gating.vote(server, run, "approve")
    card = await_run_end(server, run)["call_ask"]
    assert (card["state"], card["approval"]["by"]["kind"], card["output"]) == ("output-available", "human", "ask\n")
    assert (card["approval"]["state"], card["anomalies"]) == ("succeeded", [])


def test_what_a_person_allowed_and_failed_is_a_used_approval(server: Server, opencode: Opencode) -> None:
    run = opencode.start("ask-exit")
    gating.vote(server, run, "approve")
    card = await_run_end(server, run)["call_x"]
    assert (card["state"], card["approval"]["state"]) == ("output-error", "failed")


def test_a_persons_no_reaches_the_model(server: Server, opencode: Opencode) -> None:
    run = opencode.start("ask")
    gating.vote(server, run, "deny", reason="not on a Friday")
    card = await_run_end(server, run)["call_ask"]
    assert (card["state"], card["approval"]["by"]["kind"]) == ("output-denied", "human")
    assert "A person declined: not on a Friday" in opencode.model.results["call_ask"]


def test_what_a_person_edited_is_what_runs(server: Server, opencode: Opencode) -> None:
    run = opencode.start("ask")
    gating.vote(server, run, "edit", edited={"command": "echo edited", "description": "run call_ask"})
    card = await_run_end(server, run)["call_ask"]
    assert (card["state"], card["input"]["command"], card["output"]) == ("output-available", "echo edited", "edited\n")


@pytest.mark.parametrize(("decision", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_its_own_question_is_answered_here(server: Server, opencode: Opencode, decision: str, state: str) -> None:
    (opencode.project / "out.txt").unlink(missing_ok=True)
    run = opencode.start("write")
    gating.vote(server, run, decision, reason="because")
    card = await_run_end(server, run)["call_w"]
    assert (card["state"], card["approval"]["by"]["kind"]) == (state, "human")
    assert card["approval"]["state"] == ("succeeded" if decision == "approve" else "denied")
    assert (opencode.project / "out.txt").exists() is (decision == "approve")


def test_its_own_question_may_be_answered_there(server: Server, opencode: Opencode) -> None:
    run = opencode.start("write")
    result = gating.waiting(server, run)["approval"]["source_id"]
    opencode.call("POST", f"/permission/{result}/reply", {"reply": "reject", "message": "no"})
    card = await_run_end(server, run)["call_w"]
    assert (card["state"], card["approval"]["by"]["kind"]) == ("output-denied", "host")


def test_calls_of_one_turn_end_each_in_its_own_way(server: Server, opencode: Opencode) -> None:
    states = {call: card["state"] for call, card in await_run_end(server, opencode.start("parallel")).items()}
    assert states == {"call_p1": "output-available", "call_p2": "output-error", "call_p3": "output-error"}


@pytest.mark.parametrize(
    ("scenario", "call", "code"), [("unknown", "call_u", "no_such_tool"), ("invalid", "call_i", "invalid_input")]
)
def test_what_cannot_run_is_an_error_with_its_code(
    server: Server, opencode: Opencode, scenario: str, call: str, code: str
) -> None:
    card = await_run_end(server, opencode.start(scenario))[call]
    assert (card["state"], card["error"]["code"]) == ("output-error", code)


def test_a_sub_agents_call_is_gated_below_it(server: Server, opencode: Opencode) -> None:
    run = opencode.start("agent")
    gating.vote(server, run, "approve")
    cards = await_run_end(server, run)
    assert {call: card["state"] for call, card in cards.items()} == dict.fromkeys(
        ("call_a", "call_in"), "output-available"
    )
    assert cards["call_in"]["agent_path"] == ["opencode", "general"]


def test_a_sub_agents_call_with_its_parents_id_is_judged_by_itself(server: Server, opencode: Opencode) -> None:
    cards = await_run_end(server, opencode.start("nested"))
    outcomes = {(name, card["tool"]["name"], card["state"]) for name, card in cards.items()}
    assert outcomes == {("call_v", "task", "output-available"), ("call_v#2", "bash", "output-denied")}


def test_a_sub_agents_calls_with_its_parents_id_run_as_judged(server: Server, opencode: Opencode) -> None:
    run = opencode.start("nested-ok")
    gating.vote(server, run, "approve")
    cards = await_run_end(server, run)
    outcomes = [(name, card["tool"]["name"], card["state"], card["anomalies"]) for name, card in cards.items()]
    assert outcomes == [
        ("call_v", "task", "output-available", []), ("call_v#2", "bash", "output-available", []),
        ("call_v#3", "bash", "output-available", []),
    ]  # fmt: skip


def test_an_id_that_comes_again_is_another_call(server: Server, opencode: Opencode) -> None:
    cards = await_run_end(server, opencode.start("again"))
    outcomes = [(name, card["input"]["command"], card["state"]) for name, card in cards.items()]
    assert outcomes == [
        ("call_w", "echo one", "output-available"), ("call_w#2", "echo forbidden", "output-denied"),
        ("call_w#3", "echo one", "output-available"),
    ]  # fmt: skip


def test_an_abort_while_a_tool_runs(server: Server, opencode: Opencode) -> None:
    run = opencode.start("long")
    until((opencode.project / "started").exists)
    opencode.abort(run)
    card = await_run_end(server, run, "aborted")["call_l"]
    assert (card["state"], card["cause"]) == ("output-error", "aborted")


def test_an_abort_while_a_person_is_asked(server: Server, opencode: Opencode) -> None:
    run = opencode.start("ask")
    gating.waiting(server, run)
    opencode.abort(run)
    card = await_run_end(server, run, "aborted")["call_ask"]
    assert (card["state"], card["approval"]["state"]) == ("output-error", "cancelled")


def test_without_the_server_nothing_runs_and_the_run_is_reported_afterwards(server: Server, opencode: Opencode) -> None:
    server.stop()
    try:
        run = opencode.start("touch")
        until(lambda: "call_t" in opencode.model.results)
    finally:
        server.start()
    assert not (opencode.project / "ran.txt").exists()
    assert "could not be reached" in opencode.model.results["call_t"]
    assert await_run_end(server, run)["call_t"]["state"] == "output-denied"


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("away", [0.0, 3.0])
def test_a_restart_keeps_the_approval_of_a_waiting_call(
    server: Server, opencode: Opencode, end: str, away: float
) -> None:
    run = opencode.start("ask")
    gating.waiting(server, run)
    getattr(server, end)()
    time.sleep(away)
    server.start()
    gating.vote(server, run, "approve")
    card = await_run_end(server, run)["call_ask"]
    assert (card["state"], card["approval"]["state"], card["output"]) == ("output-available", "succeeded", "ask\n")


def test_a_server_that_never_answers_lets_nothing_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Hole() as hole, running(hole.url, "tck_nobody_listens", tmp_path_factory) as opencode:
        opencode.start("touch")
        until(lambda: "call_t" in opencode.model.results)
        assert not (opencode.project / "ran.txt").exists() and hole.swallowed
        value = opencode.model.results["call_t"]
    assert "could not be reached" in value and "timeout" in value, value


# Rows of the table of bad answers that depend on the runtime's own HTTP: opencode runs on Bun.
BUN = (
    "another call", "another digest", "a key twice", "half of it", "status 201 Created", "status 206 Partial Content",
    "a redirect 307", "HTML", "compressed though nobody asked", "a bomb", "too long", "too long in chunks", "cut off",
    "cut off in the middle", "a chunk without an end", "a chunk that is cut off", "nothing at all", "garbage",
)  # fmt: skip


def test_nothing_runs_on_a_bad_answer(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Gate() as gate, running(gate.url, "tck_a_liar_listens", tmp_path_factory) as opencode:
        ran = opencode.project / "ran.txt"
        for row, stage in [case for case in rows("decide") if case[0].name in BUN]:
            gate.tamper = make_tamper(row, stage)
            opencode.model.results.clear()
            opencode.start("touch")
            until(lambda: "call_t" in opencode.model.results)
            assert "Stopped by Toolcards" in opencode.model.results["call_t"], (row, stage)
            assert not ran.exists(), (row, stage)
        gate.tamper = lambda stage, honest: None
        opencode.start("touch")
        until(ran.exists)


def test_what_needs_no_answer_does_not_wait_for_one(server: Server, opencode: Opencode) -> None:
    """Without the server, a turn without tools ends normally and is reported when the server is back."""
    server.stop()
    try:
        run = opencode.start("words")
        until(lambda: "Only words." in json.dumps(opencode.call("GET", f"/session/{run}/message")), 60)
        until(lambda: run not in opencode.call("GET", "/session/status"), 60)
    finally:
        server.start()
    assert await_run_end(server, run) == {}
