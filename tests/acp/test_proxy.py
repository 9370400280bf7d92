"""`toolcards acp` between an editor and an agent, with a real server: who answers, what runs, what is shown."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import gating
from tests.support.acp_editor import Editor
from tests.support.server import PATIENCE, ROOT, Server, until
from tests.support.tables import loop_over
from toolcards.acp.proxy import main

pytestmark = pytest.mark.slow
AGENT = ROOT / "tests/support/acp_agent.py"


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


class Story:
    """One session: `ran` are the commands that were run."""

    def __init__(self, server: Server | None, folder: Path, *flags: str) -> None:
        name = secrets.token_hex(4)
        self.run, self.file = f"ses_{name}", folder / "ran"
        url, key = (server.base, server.key) if server else ("http://127.0.0.1:9", "tck_nobody_listens")
        self.editor = Editor([sys.executable, str(AGENT), name], url=url, key=key, flags=flags)
        self.session = self.editor.session()

    def begin(self, command: str, call: str = "call_1", **more: Any) -> None:
        text = json.dumps({"command": command, "call": call, "file": str(self.file), **more})
        self.editor.prompt(self.session, text)

    @property
    def ran(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def answer(self) -> Any:
        """Return the reply that the agent reports."""
        return json.loads(self.editor.texts[-1])


@pytest.fixture
def story(ruled: Server, tmp_path: Path) -> Iterator[Callable[..., Story]]:
    created: list[Story] = []

    def make(*flags: str, server: Server | None = ruled) -> Story:
        created.append(Story(server, tmp_path, *flags))
        return created[-1]

    yield make
    for each in created:
        each.editor.close()


def card(server: Server, story: Story, state: str, call: str = "call_1") -> Any:
    def look() -> Any:
        result = gating.calls(server, story.run).get(call)
        return result if result and result["state"] == state else None

    return until(look)


def test_a_rule_allows_for_this_once(ruled: Server, story: Callable[..., Story]) -> None:
    session = story()
    session.begin("exit 0")
    assert session.editor.result()["stopReason"] == "end_turn"
    assert session.ran == ["exit 0"] and session.editor.permission_requests.empty()
    call = card(ruled, session, "output-available")
    assert (call["output"], call["tool"]["name"], call["input"]) == ("done ☃", "bash", {"command": "exit 0"})
    assert call["decision"]["effect"] == "allow" and not call["anomalies"], call
    assert until(lambda: ruled.get(f"/api/v1/runs/{session.run}")["status"] == "finished")


def test_a_rule_denies_and_says_why(ruled: Server, story: Callable[..., Story]) -> None:
    session = story()
    session.begin("echo forbidden")
    session.editor.result()
    assert session.ran == [] and session.answer()["outcome"] == {"outcome": "selected", "optionId": "o-3"}
    assert "Not allowed here." in session.answer()["_meta"]["toolcards"]["reason"]
    call = card(ruled, session, "output-denied")
    assert call["decision"]["rule"] == "no" and not call["anomalies"], call
    session.editor.close()
    assert "Not allowed here." in session.editor.error_output


@pytest.mark.parametrize(("vote", "state"), [("approve", "output-available"), ("deny", "output-denied")])
def test_a_person_answers(ruled: Server, story: Callable[..., Story], vote: str, state: str) -> None:
    session = story()
    session.begin("echo ask")
    gating.vote(ruled, session.run, vote)
    session.editor.result()
    assert session.ran == (["echo ask"] if vote == "approve" else [])
    assert not card(ruled, session, state)["anomalies"]


def test_an_edit_cannot_be_carried_and_counts_as_a_denial(ruled: Server, story: Callable[..., Story]) -> None:
    session = story()
    session.begin("echo ask")
    gating.vote(ruled, session.run, "edit", edited={"command": "echo other"})
    session.editor.result()
    assert session.ran == [] and "cannot carry" in session.answer()["_meta"]["toolcards"]["reason"]


def test_a_cancelled_turn_takes_its_question_back(ruled: Server, story: Callable[..., Story]) -> None:
    session = story()
    session.begin("echo ask")
    gating.waiting(ruled, session.run)
    session.editor.send(method="session/cancel", params={"sessionId": session.session})
    assert session.editor.result()["stopReason"] == "cancelled"
    assert session.ran == [] and session.answer()["outcome"] == {"outcome": "cancelled"}
    assert card(ruled, session, "output-error")["cause"] == "aborted"
    assert not [
        each for each in ruled.get("/api/v1/approvals?state=waiting")["approvals"] if each.get("run") == session.run
    ]


def test_the_next_turn_needs_a_new_approval(ruled: Server, story: Callable[..., Story]) -> None:
    session = story()
    for number, command in enumerate(["exit 1", "echo forbidden", "exit 2"]):
        session.begin(command, f"call_{number}")
        session.editor.result()
    assert session.ran == ["exit 1", "exit 2"]
    assert until(lambda: len(gating.calls(ruled, session.run)) == 3)


def test_without_a_server_the_gate_says_no_and_why(story: Callable[..., Story]) -> None:
    session = story(server=None)
    session.begin("exit 0")
    session.editor.result()
    assert session.ran == []
    assert "gave no decision" in session.answer()["_meta"]["toolcards"]["reason"]


def test_without_a_server_a_mirror_is_not_in_the_way(story: Callable[..., Story]) -> None:
    session = story("--mirror", server=None)
    session.begin("exit 0")
    permission_request = session.editor.permission_requests.get(timeout=PATIENCE)
    session.editor.send(id=permission_request["id"], result={"outcome": {"outcome": "selected", "optionId": "o-2"}})
    session.editor.result()
    assert session.ran == ["exit 0"] and session.editor.close() == 7


def test_in_a_mirror_the_editor_answers_and_the_card_follows(ruled: Server, story: Callable[..., Story]) -> None:
    session = story("--mirror")
    session.begin("echo ask")
    permission_request = session.editor.permission_requests.get(timeout=PATIENCE)
    assert gating.waiting(ruled, session.run)["call_id"] == "call_1"
    session.editor.send(id=permission_request["id"], result={"outcome": {"outcome": "selected", "optionId": "o-2"}})
    session.editor.result()
    assert session.ran == ["echo ask"]
    assert not card(ruled, session, "output-available")["anomalies"]


def test_in_a_mirror_the_dashboard_may_answer_first(ruled: Server, story: Callable[..., Story]) -> None:
    session = story("--mirror")
    session.begin("echo ask", linger=1)
    permission_request = session.editor.permission_requests.get(timeout=PATIENCE)
    gating.vote(ruled, session.run, "approve")
    until(lambda: session.ran == ["echo ask"])
    session.editor.send(
        id=permission_request["id"], result={"outcome": {"outcome": "selected", "optionId": "o-3"}}
    )  # too late
    session.editor.result()
    assert not card(ruled, session, "output-available")["anomalies"]


def test_lines_pass_as_they_came_and_the_exit_code_too(ruled: Server, story: Callable[..., Story]) -> None:
    session = story("--mirror")
    assert session.editor.lines[0] == b"a line that is no JSON\n"
    assert session.editor.close() == 7


def test_the_agent_does_not_get_the_key(ruled: Server, tmp_path: Path) -> None:
    code = "import os,sys; sys.stdout.write(repr('TOOLCARDS_AGENT_KEY' in os.environ)+chr(10))"
    editor = Editor([sys.executable, "-c", code], url=ruled.base, key=ruled.key)
    editor.close()
    assert editor.lines == [b"False\n"]


@loop_over(("argv", "words"), [
    ((), "name the agent's command after --"), (("--",), "name the agent's command"),
    (("--gate",), "name the agent's command"),
    (("--gate", "--mirror", "--", "ls"), "not allowed with argument"),
    (("--key", "tck_x", "--", "no-such-program-here"), "program not found"),
    (("--url", "no address", "--key", "tck_x", "--", "ls"), "address"), (("--nonsense", "--", "ls"), "unrecognized"),
])  # fmt: skip
def test_a_mistake_ends_with_one_line(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: str) -> None:
    with pytest.raises(SystemExit) as raised:
        main([*argv])
    assert raised.value.code == 2 and words in capsys.readouterr().err.strip().splitlines()[-1]


COMMAND_AGENT = """
import json, os, sys
print(json.dumps([sys.argv[1:], "TOOLCARDS_AGENT_KEY" in os.environ, "PATH" in os.environ]))
sys.exit(7)
"""


@pytest.mark.parametrize("options", [("--",), ("--mirror", "--agent", "mine", "--"), ("--gate",)])
def test_the_agent_gets_its_own_arguments_and_not_the_key(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCARDS_AGENT_KEY", "tck_secret")
    monkeypatch.setenv("TOOLCARDS_URL", "http://127.0.0.1:9")
    argv = [*options, sys.executable, "-c", COMMAND_AGENT, "--flag", "--", "--gate"]
    with (tmp_path / "out").open("w+") as out, Path("/dev/null").open() as nothing, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(sys, "stdin", nothing)  # pytest's own have no descriptors
        monkeypatch.setattr(sys, "stdout", out)
        assert pool.submit(main, argv).result() == 7  # in a thread: signals stay the tests' own
    assert json.loads((tmp_path / "out").read_text()) == [["--flag", "--", "--gate"], False, True]
