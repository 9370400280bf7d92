"""A server, a person's token, and calls that wait."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gating import activate
from tests.support.server import Server

POLICY = {
    "v": 1, "default": "ask",
    "rules": [
        {"id": "q", "effect": "ask", "match": {"tool": ["AskUserQuestion"]}, "ask": {"editable": ["/answers"]}},
    ],
}  # fmt: skip
_numbers = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def interrupts() -> None:
    """Let commands be interrupted, also where the tests run in the background, which ignores it for all below."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), database_url="", redis_url="") as running:
        assert running.manage("person", "create", "bea", "--role", "approver").returncode == 0
        activate(running, POLICY)
        yield running


@pytest.fixture(scope="module")
def token(own_server: Server) -> str:
    return own_server.manage("token", "create", "bea").stdout.split()[-1]


@pytest.fixture
def question(own_server: Server) -> Iterator[Any]:
    """Give `question(tool, args)`: the id of a call that waits; what still waits at the end is withdrawn."""
    approvals = []

    def ask(tool: str = "Write", args: Any = None) -> str:
        args = {"file_path": "/srv/app/a.txt", "content": "hello"} if args is None else args
        body = {"run": "terminal", "call_id": f"c{next(_numbers)}", "tool": tool, "args": args}
        answer = own_server.request("POST", "/api/v1/calls/decide", body)[1]
        assert answer["decision"] == "ask", answer
        approvals.append(str(answer["approval"]["id"]))
        return approvals[-1]

    yield ask
    for approval in approvals:
        own_server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})
