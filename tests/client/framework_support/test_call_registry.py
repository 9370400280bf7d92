"""Calls of a framework: what was approved runs once, and only as it was approved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from toolcards.client import Run, Toolcards
from toolcards.client.framework_support.call_registry import CallRegistry, find_registry

EFFECTS = {"lookup": "allow", "agent": "allow", "wipe": "deny"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(dict(EFFECTS)) as running:
        yield running


@pytest.fixture
def run(gate: Gate) -> Iterator[Run]:
    with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as running:
        yield running


def list_questions(gate: Gate) -> list[tuple[str, str]]:
    """What the gate was asked about: ids on the wire, and tools."""
    return [(call.call_id, call.tool) for call in gate.calls]


@pytest.fixture
def registry(run: Run) -> CallRegistry:
    match = find_registry(run)
    assert match is not None
    return match


def test_what_a_person_approved_runs_once_and_only_as_it_was_approved(registry: CallRegistry, gate: Gate) -> None:
    """A framework asks when it pauses, and again where the tool runs: the second time it gets the same answer."""
    args = {"key": "a"}
    assert registry.enter("c", "lookup", args).ask_now(args, take=False).allowed
    runs = registry.enter("c", "lookup", args)
    assert runs.ask_now(args).allowed and list_questions(gate) == [("c", "lookup")]
    again = registry.enter("c", "lookup", args)
    assert again is not runs
    again.ask_now(args)
    assert list_questions(gate) == [("c", "lookup"), ("c#2", "lookup")]


@pytest.mark.parametrize(("tool", "args"), [("wipe", {"key": "a"}), ("lookup", {"key": "b"}), ("lookup", {})])
def test_an_approval_is_for_no_other_call_of_the_same_id(
    registry: CallRegistry, gate: Gate, tool: str, args: Any
) -> None:
    assert registry.enter("c", "lookup", {"key": "a"}).ask_now({"key": "a"}, take=False).allowed
    registry.enter("c", tool, args).ask_now(args)
    assert list_questions(gate) == [("c", "lookup"), ("c#2", tool)]


def test_an_edited_call_runs_as_it_was_edited_or_as_it_was_written(gate: Gate) -> None:
    gate.effects, gate.edited = {"lookup": "ask"}, {"key": "edited"}
    for ran in ({"key": "a"}, {"key": "edited"}):
        with Toolcards(gate.url, "key").run(f"run {ran}", offline=PATIENCE, linger=1) as run:
            registry = find_registry(run)
            assert registry is not None
            registry.enter("c", "lookup", {"key": "a"}).ask_now({"key": "a"}, take=False)
            decision = registry.enter("c", "lookup", ran).ask_now(ran)
            assert (decision.allowed, decision.edited, decision.args) == (True, True, {"key": "edited"})
    assert len(gate.calls) == 2


def test_a_stream_that_lags_behind_reports_no_second_call(registry: CallRegistry, gate: Gate) -> None:
    call = registry.enter("c", "lookup", {})
    assert call.ask_now({}).allowed
    call.output("found")
    assert registry.match_announced("c", "lookup") is call
    assert registry.match_announced("c", "lookup") is not call  # a second announcement is a second call


def test_calls_that_were_written_are_each_taken_once(registry: CallRegistry, gate: Gate) -> None:
    started_calls = [registry.begin("c", "lookup"), registry.begin("c", "wipe"), registry.begin("c", "lookup")]
    completed_calls = [registry.complete("c", tool, {"n": n}) for n, tool in enumerate(["lookup", "wipe", "lookup"])]
    assert completed_calls == started_calls
    assert registry.enter("c", "lookup", {"n": 2}) is started_calls[2]
    assert registry.enter("c", "lookup", {"n": 0}) is started_calls[0]
    assert registry.enter("c", "wipe", {"n": 1}) is started_calls[1]
    assert registry.enter("c", "lookup", {"n": 0}) not in started_calls


def test_many_threads_that_enter_one_call_get_one_each(registry: CallRegistry) -> None:
    """Twenty threads, one id, one tool, the same arguments: twenty calls."""
    registry.complete("c", "lookup", {})
    entered: list[Any] = []
    threads = [threading.Thread(target=lambda: entered.append(registry.enter("c", "lookup", {}))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(call) for call in entered}) == 20 and len({call.call.id for call in entered}) == 20
