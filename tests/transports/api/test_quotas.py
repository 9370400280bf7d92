"""How much a source may send in an hour, and what happens beyond that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.server import Server
from toolcards.transports.api import quotas
from toolcards.transports.api.api_errors import Problem

HOOK = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/"}


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    """Begin and end with nothing counted."""
    quotas.clear()
    yield
    quotas.clear()


@given(st.lists(st.tuples(st.integers(0, 1_500_000), st.floats(0, 4_000)), max_size=30))
def test_a_source_never_gets_more_than_its_quota_and_what_has_drained(messages: list[tuple[int, float]]) -> None:
    quotas.clear()
    clock, level = SimpleNamespace(now=0.0), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "time", SimpleNamespace(monotonic=lambda: clock.now))
        patch.setattr(quotas, "settings", SimpleNamespace(TOOLCARDS=SimpleNamespace(source_quota=1.0)))
        for size, pause in messages:
            clock.now += pause
            level = max(0.0, level - pause * 1_000_000 / 3_600)
            fits = level + min(size, 1_000_000) <= 1_000_000 + 1e-3
            try:
                quotas.charge(1, size)
            except Problem as problem:
                assert not fits or level + size == pytest.approx(1_000_000)
                assert (problem.status, problem.close) == (429, 4429)
                clock.now += int(problem.headers["Retry-After"])
                level = max(0.0, level - int(problem.headers["Retry-After"]) * 1_000_000 / 3_600)
                quotas.charge(1, size)  # after the time it was given
            level += size
            quotas.charge(2, 1)  # another source has a quota of its own


def test_without_a_quota_nothing_is_counted(limits: Callable[..., None]) -> None:
    limits(source_quota=0)
    for _ in range(3):
        quotas.charge(1, 10**12)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("small"), source_quota=1) as running:
        yield running


def test_a_source_beyond_its_quota_learns_when_to_come_back_and_its_calls_are_denied(small: Server) -> None:
    text = "x" * 240_000
    frames = [
        {"type": "tool.input.available", "call_id": f"c{number}", "tool": "bash", "input": {"text": text}}
        for number in range(4)
    ]
    address = "/api/v1/ingest?protocol=native&run="
    assert small.request("POST", f"{address}first", frames)[0] == 200
    status, answer = small.request("POST", f"{address}second", frames)[:2]
    assert (status, answer["error"]["code"]) == (429, "quota_exceeded")
    assert small.request("POST", "/api/v1/calls/decide", {"run": "r", "call_id": "c", "args": {"text": text}})[0] == 429
    hook = HOOK | {"tool_input": {"command": text}}
    status, output = small.request("POST", "/api/v1/hooks/claude-code", hook)[:2]
    assert (status, output["hookSpecificOutput"]["permissionDecision"]) == (200, "deny")
    with small.socket(protocol="native", run="third", mode="observe") as agent:
        agent.send(json.dumps({"type": "run.started"}))
        assert json.loads(agent.recv())["type"]
        agent.send(json.dumps(frames[0]))
        with pytest.raises(Exception, match="4429"):
            while True:
                agent.recv()
    assert [run["run"] for run in small.get("/api/v1/runs")["runs"] if run["run"] == "second"] == []
