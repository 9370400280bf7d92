"""The real Claude Agent SDK in an app that asks questions too.

For Python it is 0.2.184 with its own Claude Code 2.1.327, for TypeScript 0.3.330 with 2.1.330. It reads the settings
that `connect claude-code` writes. An app that reads none hands them over by `settings=`, or asks the gate in its own
`can_use_tool` or `canUseTool`; both are here. In TypeScript the gate is asked by the connect page's text, as printed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import claude as claude_code
from tests.clients import npm, pip
from tests.clients.nodeapp import ZOD
from tests.support import gating
from tests.support.server import Server, until
from toolcards.connect import snippet_text
from toolcards.connect.programs import libraries

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


def in_python(folder: Path, server: Server) -> list[str]:
    """Return the command of agents/claude_agent.py."""
    program = pip.python("claude-agent", pip.CLAUDE_AGENT)
    return [str(program), str(ROOT / "tests/clients/agents/claude_agent.py")]


def in_typescript(folder: Path, server: Server) -> list[str]:
    """Return the command of javascript/claude_agent.mjs, in one folder with the text of the connect page."""
    modules = npm.installed("claude-agent-ts", anthropic_ai__claude_agent_sdk="0.3.330", zod=ZOD)
    app = folder / "app"
    if not app.exists():
        (app / "toolcards").mkdir(parents=True)
        (app / "node_modules").symlink_to(modules)
        (app / "gate.mjs").write_text(snippet_text.render_snippet("claude_agent_ts", server.base))
        shutil.copy(ROOT / "tests/clients/javascript/claude_agent.mjs", app)
        for module in libraries.GATE_MODULES:
            shutil.copy(ROOT / "static/clients" / module, app / "toolcards")
    return [str(npm.node(modules)), str(app / "claude_agent.mjs")]


LANGUAGES = {"python": in_python, "typescript": in_typescript}


class App:
    """The app in one of the languages, with one prompt."""

    def __init__(
        self, command: list[str], place: claude_code.Place, server: Server, scenario: str, **target: Any
    ) -> None:
        self.place, self.run = place, str(uuid.uuid4())
        env = place.env | {
            "PYTHONPATH": str(ROOT), "PROJECT": str(place.project), "TOOLCARDS_URL": server.base,
            "TOOLCARDS_AGENT_KEY": server.key,
        }  # fmt: skip
        self._process = subprocess.Popen(
            command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        usual = {"host": "", "isolated": False, "settings": None, "allowed": []}
        self.say(json.dumps({"prompt": f"SCENARIO:{scenario}", "session": self.run, **usual, **target}))

    def say(self, line: str) -> None:
        """Tell the app something."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hears(self, word: str) -> dict[str, Any]:
        """Return the next thing that the app tells, which has this word."""
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        payload: dict[str, Any] = json.loads(line) if line else {}
        assert word in payload, (payload, self._process.stderr.read()[-2000:] if not line else "")
        return payload

    def results(self) -> dict[str, Any]:
        """Wait for the last message and return the result of each call."""
        message: dict[str, Any] = self.hears("results")["results"]
        return message

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(params=LANGUAGES)
def app(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Callable[..., App]]:
    """Give `app(scenario, host=…, isolated=…)`: a prompt that is being worked on."""
    place = claude_code.place(tmp_path, server.base, server.key)
    command = LANGUAGES[request.param](tmp_path, server)
    apps: list[App] = []

    def begin(scenario: str, **target: Any) -> App:
        apps.append(App(command, place, server, scenario, **target))
        return apps[-1]

    yield begin
    for each in apps:
        each.stop()
    place.model.close()


def await_state(server: Server, app: App, call: str, state: str) -> dict[str, Any]:
    """Return the card once it is in this state."""
    until(lambda: gating.calls(server, app.run).get(call, {}).get("state") == state)
    result: dict[str, Any] = gating.calls(server, app.run)[call]
    return result


def test_a_success(server: Server, app: Callable[..., App]) -> None:
    result = app("success")
    assert result.results()["toolu_ok"] == [False, "hello"]
    await_state(server, result, "toolu_ok", "output-available")
    until(lambda: server.get(f"/api/v1/runs/{result.run}")["status"] == "finished")


def test_a_rules_no_reaches_the_app_and_the_model(server: Server, app: Callable[..., App]) -> None:
    report = app("deny", host="wait")
    failed, result = report.results()["toolu_no"]
    assert failed and "Not allowed here. Try something else." in result
    assert await_state(server, report, "toolu_no", "output-denied")["decision"]["effect"] == "deny"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_persons_yes_here_is_not_asked_for_again_there(
    server: Server, app: Callable[..., App], tmp_path: Path, isolated: bool
) -> None:
    """An isolated app reads no settings of the account; it is handed the same ones."""
    settings = str(tmp_path / "home/.claude/settings.json") if isolated else None
    result = app("ask", host="wait", isolated=isolated, settings=settings)
    gating.vote(server, result.run, "approve")
    assert result.results()["toolu_ask"] == [False, "ask"]
    card = await_state(server, result, "toolu_ask", "output-available")
    assert (card["approval"]["state"], card["anomalies"]) == ("succeeded", [])


def test_what_a_person_edited_is_what_runs(server: Server, app: Callable[..., App]) -> None:
    result = app("ask")
    gating.vote(server, result.run, "edit", edited={"command": "echo edited", "description": "run toolu_ask"})
    assert result.results()["toolu_ask"] == [False, "edited"]
    assert await_state(server, result, "toolu_ask", "output-available")["input"]["command"] == "echo edited"


def test_an_interrupted_turn_takes_its_question_back(server: Server, app: Callable[..., App]) -> None:
    result = app("ask", host="wait")
    gating.waiting(server, result.run)
    result.say("interrupt")
    assert result.results()["toolu_ask"][0] is True
    card = await_state(server, result, "toolu_ask", "output-error")
    assert (card["cause"], card["approval"]["state"]) == ("aborted", "cancelled")


@pytest.mark.parametrize(("decision", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_what_the_app_is_asked_may_be_answered_here(
    server: Server, app: Callable[..., App], decision: str, state: str
) -> None:
    report = app("write", host="wait")
    assert report.hears("asked") == {"asked": "Write", "call": "toolu_w"}
    gating.vote(server, report.run, decision, reason="because")
    assert report.hears("withdrawn") == {"withdrawn": "toolu_w"}
    failed, result = report.results()["toolu_w"]
    assert failed is (decision == "deny") and ("because" in result) is failed
    assert await_state(server, report, "toolu_w", state)["approval"]["by"]["kind"] == "human"
    assert (report.place.project / "out.txt").exists() is (decision == "approve")


@pytest.mark.parametrize(("answer", "state"), [("allow", "output-available"), ("deny", "output-denied")])
def test_what_the_app_is_asked_may_be_answered_there(
    server: Server, app: Callable[..., App], answer: str, state: str
) -> None:
    result = app("write", host="wait")
    result.hears("asked")
    gating.waiting(server, result.run)
    result.say(answer)
    assert result.results()["toolu_w"][0] is (answer == "deny")
    card = await_state(server, result, "toolu_w", state)
    assert (card["approval"]["by"]["kind"], card["anomalies"]) == ("host", [])


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(server: Server, app: Callable[..., App]) -> None:
    server.stop()
    try:
        report = app("touch", allowed=["Bash"])
        failed, result = report.results()["toolu_t"]
    finally:
        server.start()
    assert failed and "Connection refused" in result and "Connection refused" in report.place.model.results["toolu_t"]
    assert not (report.place.project / "ran.txt").exists()


# ---------------------------------------------------------------- an app whose own callback asks the gate


@pytest.mark.parametrize(("decision", "expected_output"), [("approve", "ask\n"), ("deny", None), ("edit", "edited\n")])
def test_a_callback_of_the_apps_own_asks_the_gate(
    server: Server, app: Callable[..., App], decision: str, expected_output: str | None
) -> None:
    report = app("ask-write", host="gate", isolated=True)
    edited = {"command": "echo edited > ran.txt", "description": "run toolu_aw"} if decision == "edit" else None
    gating.vote(server, report.run, decision, reason="because", edited=edited)
    report.hears("asked")
    failed, result = report.results()["toolu_aw"]
    assert failed is (decision == "deny") and ("because" in result) is failed
    path = report.place.project / "ran.txt"
    assert (path.read_text() if path.exists() else None) == expected_output


def test_a_callback_without_the_server_denies(server: Server, app: Callable[..., App]) -> None:
    server.stop()
    try:
        report = app("touch", host="gate", isolated=True)
        report.hears("asked")
        failed, result = report.results()["toolu_t"]
    finally:
        server.start()
    assert failed and ("gave no decision" in result or "could not be reached" in result)
    assert not (report.place.project / "ran.txt").exists()


# ---------------------------------------------------------------- an app whose own hooks ask the gate

typescript = pytest.mark.parametrize("app", ["typescript"], indirect=True)


@typescript
@pytest.mark.parametrize(("decision", "expected_output"), [("approve", "ask\n"), ("deny", None), ("edit", "edited\n")])
def test_hooks_of_the_apps_own_ask_the_gate_and_tell_the_outcome(
    server: Server, app: Callable[..., App], decision: str, expected_output: str | None
) -> None:
    report = app("ask-write", host="hooks", isolated=True)
    edited = {"command": "echo edited > ran.txt", "description": "run toolu_aw"} if decision == "edit" else None
    gating.vote(server, report.run, decision, reason="because", edited=edited)
    failed, result = report.results()["toolu_aw"]
    assert failed is (decision == "deny") and ("because" in result) is failed
    path = report.place.project / "ran.txt"
    assert (path.read_text() if path.exists() else None) == expected_output
    card = await_state(server, report, "toolu_aw", "output-denied" if decision == "deny" else "output-available")
    assert (card["approval"]["by"]["kind"], card["anomalies"]) == ("human", [])


@typescript
def test_hooks_of_the_apps_own_tell_a_failure(server: Server, app: Callable[..., App]) -> None:
    result = app("error", host="hooks", isolated=True)
    assert result.results()["toolu_err"][0] is True
    assert await_state(server, result, "toolu_err", "output-error")["decision"]["effect"] == "allow"


@typescript
def test_hooks_of_the_app_without_the_server_deny(server: Server, app: Callable[..., App]) -> None:
    server.stop()
    try:
        report = app("touch", host="hooks", isolated=True, allowed=["Bash"])
        failed, result = report.results()["toolu_t"]
    finally:
        server.start()
    assert failed and "could not be reached" in result and not (report.place.project / "ran.txt").exists()
