"""The real opencode as an ACP agent, behind `toolcards acp`, with a model that says what we want.

1.18.33 is what these tests run. Its permissions are set to ask, so that every shell command and write is requested.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, npm
from tests.clients.models import Call
from tests.support import gating
from tests.support.acp_editor import Editor
from tests.support.server import PATIENCE, Server, until
from toolcards.connect import snippet_text

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
VERSION = "1.18.33"


def bash(call: str, command: str) -> Call:
    return Call(call, "bash", {"command": command, "description": f"run {call}"})


SCRIPTS: dict[str, models.Script] = {
    "success": [["Let me look.", bash("call_ok", "echo hello > ran.txt; echo hello")], ["Done."]],
    "error": [[bash("call_err", "exit 3")], ["It failed."]],
    "deny": [[bash("call_no", "echo forbidden > ran.txt")], ["I may not."]],
    "ask": [[bash("call_ask", "echo ask > ran.txt")], ["Done."]],
    "write": [[Call("call_w", "write", {"filePath": "$CWD/out.txt", "content": "hi\n"})], ["Written."]],
    "read": [[Call("call_r", "read", {"filePath": "$CWD/nope.txt"})], ["Missing."]],
    "unknown": [[Call("call_u", "no_such_tool", {"x": 1})], ["No such tool."]],
    "parallel": [[bash("call_p1", "echo forbidden one"), bash("call_p2", "echo two > ran.txt")], ["One of two."]],
}


def settings(model: str) -> dict[str, Any]:
    options = {"baseURL": f"{model}/v1", "apiKey": "no-key-at-all"}
    fake = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options}
    fake["models"] = {"fake-model": {"name": "Fake", "limit": {"context": 200000, "output": 8000}}}
    return {
        "autoupdate": False, "share": "disabled", "snapshot": False, "model": "fake/fake-model",
        "small_model": "fake/fake-model", "provider": {"fake": fake},
        "permission": {"write": "ask", "edit": "ask", "bash": "ask"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def program() -> Path:
    return npm.native(npm.installed("opencode", opencode_ai=VERSION), "opencode", "bin/opencode")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="bash", field="/command"))
        yield running


class Agent:
    """opencode in a home and a project of its own, behind the proxy."""

    def __init__(self, program: Path, url: str, key: str, folder: Path, *flags: str, **more: Any) -> None:
        home, self.project = folder / "home", folder / "project"
        home.mkdir()
        self.project.mkdir()
        here = {name: [[self._here(part) for part in turn] for turn in turns] for name, turns in SCRIPTS.items()}
        self.model = models.openai(here)
        (self.project / "opencode.json").write_text(json.dumps(settings(self.model.base)))
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }  # fmt: skip
        env["PATH"] = ":".join([*more.pop("path", ()), env["PATH"]])
        self.editor = Editor([str(program), "acp"], url=url, key=key, flags=flags, env=env, cwd=self.project, **more)
        self.session = self.editor.session(str(self.project))

    def _here(self, part: str | Call) -> str | Call:
        if isinstance(part, str):
            return part
        by_name = {
            name: value.replace("$CWD", str(self.project)) if isinstance(value, str) else value
            for name, value in part.input.items()
        }
        return Call(part.id, part.tool, by_name)

    def play(self, scenario: str) -> None:
        self.editor.prompt(self.session, f"SCENARIO:{scenario}")

    @property
    def ran(self) -> bool:
        return (self.project / "ran.txt").exists()

    def close(self) -> None:
        self.editor.close()
        self.model.close()


@pytest.fixture
def agent(program: Path, server: Server, tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    created: list[Agent] = []

    def make(*flags: str, url: str = server.base, **more: Any) -> Agent:
        created.append(Agent(program, url, server.key, tmp_path, *flags, **more))
        return created[-1]

    yield make
    for each in created:
        each.close()


def card(server: Server, agent: Agent, call: str, state: str) -> Any:
    def look() -> Any:
        result = gating.calls(server, agent.session).get(call)
        return result if result and result["state"] == state else None

    return until(look)


def test_an_editors_settings_work_as_printed(
    server: Server, program: Path, agent: Callable[..., Agent], tmp_path: Path
) -> None:
    """Both programs are found by their names; `toolcards` is what pip would install."""
    installed = tmp_path / "toolcards"
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolcards "$@"\n')
    installed.chmod(0o755)
    document = json.loads(snippet_text.render_snippet("acp", server.base, server.key))
    result = agent(url="http://127.0.0.1:9", settings=document, path=[str(tmp_path), str(program.parent)])
    result.play("ask")
    gating.vote(server, result.session, "approve")
    assert result.editor.result()["stopReason"] == "end_turn"
    card(server, result, "call_ask", "output-available")
    assert result.ran


def test_the_gate_answers_and_every_card_ends_right(server: Server, agent: Callable[..., Agent]) -> None:
    result = agent()
    result.play("success")
    assert result.editor.result()["stopReason"] == "end_turn"
    call = card(server, result, "call_ok", "output-available")
    assert call["tool"]["name"] == "bash" and call["input"]["command"].startswith("echo hello") and result.ran
    assert call["decision"]["effect"] == "allow" and "hello" in call["output"] and not call["anomalies"], call
    result.play("error")
    result.editor.result()
    assert card(server, result, "call_err", "output-error")["error"]["code"] == "exit_status"
    result.play("read")
    result.editor.result()
    card(server, result, "call_r", "output-error")
    result.play("unknown")
    result.editor.result()
    assert card(server, result, "call_u", "output-error")["error"]["code"] == "no_such_tool"
    result.play("write")
    result.editor.result()
    assert card(server, result, "call_w", "output-available")["tool"]["kind"] == "edit"
    assert (result.project / "out.txt").read_text() == "hi\n"


def test_a_denied_command_does_not_run(server: Server, agent: Callable[..., Agent]) -> None:
    result = agent()
    result.play("deny")
    result.editor.result()
    assert not result.ran and not card(server, result, "call_no", "output-denied")["anomalies"]
    assert result.editor.permission_requests.empty()


def test_of_two_parallel_calls_one_is_denied(server: Server, agent: Callable[..., Agent]) -> None:
    """A rejection makes opencode reject whatever else of the session waits."""
    result = agent()
    result.play("parallel")
    result.editor.result()
    card(server, result, "call_p1", "output-denied")
    ends = {"output-available", "output-error", "output-denied"}
    until(lambda: gating.calls(server, result.session).get("call_p2", {}).get("state") in ends)


@pytest.mark.parametrize(("vote", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_a_person_decides(server: Server, agent: Callable[..., Agent], vote: str, state: str) -> None:
    result = agent()
    result.play("ask")
    gating.vote(server, result.session, vote)
    result.editor.result()
    call = card(server, result, "call_ask", state)
    assert call["approval"]["state"] == ("succeeded" if vote == "approve" else "denied") and not call["anomalies"]
    assert result.ran is (vote == "approve")


@pytest.mark.parametrize(("first", "by"), [("here", "human"), ("there", "host")])
def test_of_dashboard_and_editor_the_first_answer_counts(
    server: Server, agent: Callable[..., Agent], first: str, by: str
) -> None:
    result = agent("--mirror")
    result.play("ask")
    permission_request = result.editor.permission_requests.get(timeout=PATIENCE)
    gating.waiting(server, result.session)
    if first == "here":
        gating.vote(server, result.session, "approve")
        until(lambda: result.ran)
    option = "once" if first == "there" else "reject"
    result.editor.send(id=permission_request["id"], result={"outcome": {"outcome": "selected", "optionId": option}})
    result.editor.result()
    call = card(server, result, "call_ask", "output-available")
    assert result.ran and (call["approval"]["by"]["kind"], call["approval"]["state"]) == (by, "succeeded")


def test_a_cancelled_turn(server: Server, agent: Callable[..., Agent]) -> None:
    result = agent()
    result.play("ask")
    gating.waiting(server, result.session)
    result.editor.send(method="session/cancel", params={"sessionId": result.session})
    assert result.editor.result()["stopReason"] == "cancelled"
    assert card(server, result, "call_ask", "output-error")["cause"] == "aborted" and not result.ran


def test_without_a_server_the_command_does_not_run(agent: Callable[..., Agent]) -> None:
    result = agent(url="http://127.0.0.1:9")
    result.play("success")
    result.editor.result()
    assert not result.ran
    result.editor.close()
    assert "gave no decision" in result.editor.error_output


def test_without_a_server_a_mirror_asks_the_editor(agent: Callable[..., Agent]) -> None:
    result = agent("--mirror", url="http://127.0.0.1:9")
    result.play("success")
    permission_request = result.editor.permission_requests.get(timeout=PATIENCE)
    result.editor.send(id=permission_request["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
    result.editor.result()
    assert result.ran
