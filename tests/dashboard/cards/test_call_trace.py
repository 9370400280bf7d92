"""The page of a run's steps reads no more of the log than it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.cards import call_trace
from toolcards.core.calls import facts as f
from toolcards.models import Event, Run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("calls", "lines", "cut"), [(3, 7, False), (4, 9, False), (5, 9, True), (50, 9, True)])
def test_events_after_the_last_line_are_not_decrypted(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, calls: int, lines: int, cut: bool
) -> None:
    facts: list[Any] = []
    for number in range(calls):
        facts += [f.InputReady(f"c{number}", "Read", {}, True), f.OutputReady(f"c{number}", "text")]
    run, read = a_run("r", *facts), []
    fact = Event.readable_fact.fget
    monkeypatch.setattr(Event, "readable_fact", property(lambda event: read.append(event.seq) or fact(event)))
    monkeypatch.setattr(call_trace, "MAX_LINES", 9)
    trace = call_trace.list_trace_lines(run)
    assert (len(trace["steps"]), trace["steps_cut"]) == (lines, cut) and len(read) <= 9 + 2
