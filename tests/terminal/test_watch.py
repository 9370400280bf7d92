"""`toolcards approvals watch` in a real terminal: questions as they come, and keys that answer."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import PATIENCE, ROOT, Server, until
from tests.support.terminals import get_state


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, server: Server, token: str, *words: str) -> None:
        self.side, child = pty.openpty()
        env = {**os.environ, "TOOLCARDS_URL": server.base, "TOOLCARDS_TOKEN": token, "TERM": "dumb"}
        command = [sys.executable, str(ROOT / "manage.py"), "approvals", *words]
        self.process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=env, cwd=ROOT)
        os.close(child)
        self.output = ""

    def expect(self, text: str) -> str:
        """Return what was shown up to this text, from the last one on."""
        end = time.monotonic() + PATIENCE
        while text not in self.output:
            ready, _, _ = select.select([self.side], [], [], max(0.0, end - time.monotonic()))
            assert ready, self.output
            self.output += os.read(self.side, 1 << 16).decode()
        before, _, self.output = self.output.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self.side, text.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        os.close(self.side)


@pytest.fixture
def watch(own_server: Server, token: str) -> Iterator[Any]:
    terminals: list[Terminal] = []

    def start(*words: str) -> Terminal:
        terminals.append(Terminal(own_server, token, "watch", *words))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def wait_for(server: Server, approval: str, state: str) -> None:
    until(lambda: get_state(server, approval)["approval"]["state"] == state)


@pytest.mark.slow
def test_keys_answer_the_question_that_is_shown(watch: Any, question: Any, own_server: Server) -> None:
    terminal = watch("--bell")
    terminal.expect("Watching")
    first = question(args={"file_path": "/srv/one.txt", "content": "1"})
    terminal.expect("\a")
    terminal.expect("file_path: /srv/one.txt")
    second = question(args={"file_path": "/srv/two.txt", "content": "2"})
    terminal.expect("a approve")
    terminal.type("a")
    terminal.expect(f"{first} approved.")
    terminal.expect("file_path: /srv/two.txt")
    terminal.expect("a approve")
    terminal.type("d")
    terminal.expect("Reason")
    terminal.type("not now\n")
    terminal.expect(f"{second} denied.")
    wait_for(own_server, first, "approved")
    wait_for(own_server, second, "denied")
    assert get_state(own_server, second)["reason"]["text"] == "A person declined: not now"
    terminal.type("q")
    assert terminal.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_high_risk_needs_the_word_and_a_colleague_may_be_first(watch: Any, question: Any, own_server: Server) -> None:
    approval = question("Bash", {"command": "rm -r /srv/app"})
    terminal = watch()
    terminal.expect("rm -r /srv/app")
    terminal.expect("a approve")
    terminal.type("a")
    terminal.expect("Type yes")
    terminal.type("y\n")
    terminal.expect("Not approved.")
    assert get_state(own_server, approval)["approval"]["state"] == "pending"
    own_server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})
    terminal.expect("was answered elsewhere or withdrawn")


def test_another_question_comes_with_a_key_and_returns(watch: Any, question: Any) -> None:
    question(args={"file_path": "/srv/one.txt", "content": "1"})
    question(args={"file_path": "/srv/two.txt", "content": "2"})
    terminal = watch()
    for path in ("one", "two", "one"):
        terminal.expect(f"file_path: /srv/{path}.txt")
        terminal.expect("1 more")
        terminal.type("n")


@pytest.mark.slow
def test_scripts_get_lines_of_json(question: Any, own_server: Server, token: str) -> None:
    approval = question()
    env = {**os.environ, "TOOLCARDS_URL": own_server.base, "TOOLCARDS_TOKEN": token}
    command = [sys.executable, str(ROOT / "manage.py"), "approvals", "watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == approval
        own_server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})
        assert json.loads(process.stdout.readline()) == {"id": approval, "gone": True}
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130


def test_without_a_terminal_it_says_what_to_do(own_server: Server, token: str) -> None:
    env = {**os.environ, "TOOLCARDS_URL": own_server.base, "TOOLCARDS_TOKEN": token}
    command = [sys.executable, str(ROOT / "manage.py"), "approvals", "watch"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, cwd=ROOT)
    assert (result.returncode, result.stderr) == (1, "`watch` needs a terminal, or --json.\n")
