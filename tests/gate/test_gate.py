"""Entry points of the gate: one writer, one decision per approval, and a log that explains every change."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connections

from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import Event, LogIsFinal, Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "state",
    [
        "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
        "output-error", "output-denied",
    ],
)  # fmt: skip
def test_every_state_is_reached_through_the_gate(state: str, a_call: Any) -> None:
    assert a_call(state).as_card().state == state


def test_the_log_is_never_changed(a_call: Any) -> None:
    a_call("output-available")
    with pytest.raises(LogIsFinal):
        Event.objects.all().update(seq=1)
    with pytest.raises(LogIsFinal):
        Event.objects.all().delete()


def test_one_bad_piece_of_work_does_not_lose_its_neighbours(source: Any, a_run: Any) -> None:
    run = a_run("good")

    class Broken:
        urgent, error = True, None

        def mark_dequeued(self) -> None:
            pass

        def run_keys(self) -> list[Any]:
            return []

        def apply(self, tx: Any) -> None:
            raise RuntimeError("broken")

        def finish(self, error: Exception | None) -> None:
            self.error = error

    broken, good = Broken(), gate.agents.run_commands.RecordHeartbeat(source, "good")
    group_commit.commit([broken, good])
    assert isinstance(broken.error, RuntimeError)
    assert good.error is None
    assert Run.objects.get(pk=run.pk).alive_until


def test_a_text_cut_inside_an_emoji_is_stored_as_it_was(a_run: Any) -> None:
    a_run("r", f.InputStarted("c", "bash"), f.InputDelta("c", '"\ud83d'))
    assert str(ToolCall.objects.get().as_card().text) == '"\ud83d'


class Hesitant(group_commit.Writer):
    """A writer whose thread is held up after each thing that it notes, so that others can look at it half-way."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if threading.current_thread().name == "journal":
            time.sleep(0.05)


class Note(Command):
    """A piece of work that writes nothing."""

    over = False

    def apply(self, tx: Any) -> None:
        pass

    def finish(self, error: Exception | None) -> None:
        connections.close_all()  # of a thread that gets no more work
        self.over = True


def test_who_waits_for_the_journal_waits_for_what_it_has_taken_and_not_begun() -> None:
    writer, work = Hesitant(), Note()
    writer.enqueue(work)
    writer.drain(PATIENCE)
    assert work.over
