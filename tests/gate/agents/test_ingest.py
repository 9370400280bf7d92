"""Frames of a stream become facts: once, in order, joined where that is equivalent, and decided on a gate stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.held_writer import HeldWriter, hold_writer
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.models import Event, Run, Source, ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWriter]:
    held = hold_writer(monkeypatch)
    yield held
    held.loop.close()


def read_log(name: str = "r") -> list[Any]:
    """Return the facts of the run, in order."""
    return [event.decoded_fact for event in Event.objects.after(Run.objects.get(name=name), 0)]


def read_permits(name: str = "r") -> dict[str, str]:
    """Return the state of each call's permit."""
    cards = [call.as_card() for call in ToolCall.objects.filter(run__name=name)]
    return {card.call_id: card.permit.state for card in cards if card.permit}


# ---------------------------------------------------------------- the end of a run and of a part of it


def test_the_end_of_a_sub_agent_keeps_the_permits_and_the_reason_of_the_run(
    writer: HeldWriter, source: Source, policy: Callable[..., Any]
) -> None:
    policy({"default": "allow"})
    gate.decide(source, gate.DecisionRequest("r", "main", "bash", {"command": "ls"}))
    stream = writer.open(source)
    stream.push([f.LaneStarted("helper"), f.InputReady("sub", "bash", {"command": "ls"}, True, lane="helper")])
    stream.push([f.RunEnded(outcome="error", reason="The sub-agent failed.", lane="helper")])
    writer.write_all()
    run = Run.objects.get()
    assert read_permits() == {"main": "issued"}
    assert (run.status, run.reason) == ("running", "")
    stream.push([f.RunEnded(outcome="error", reason="The run failed.")])
    writer.write_all()
    run.refresh_from_db()
    assert read_permits() == {"main": "void"}
    assert (run.status, run.reason) == ("error", "The run failed.")


def test_the_end_of_another_scope_voids_no_permit_of_the_current_one(
    writer: HeldWriter, source: Source, policy: Callable[..., Any]
) -> None:
    policy({"default": "allow"})
    gate.decide(source, gate.DecisionRequest("r", "main", "bash", {"command": "ls"}))
    stream = writer.open(source)
    stream.push([f.RunEnded(outcome="error", reason="The session failed.", scope="session of a sub-agent")])
    writer.write_all()
    assert (read_permits(), Run.objects.get().reason) == ({"main": "issued"}, "")


def test_an_end_that_comes_again_keeps_the_reason_of_the_first(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source)
    stream.push([f.InputReady("c", "bash", {}, True), f.RunEnded(outcome="error", reason="The model failed.")])
    stream.push([f.RunEnded(outcome="ok", again=True), f.TextDelta(text="late")])
    writer.write_all()
    assert Run.objects.get().reason == "The model failed."
