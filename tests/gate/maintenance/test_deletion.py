"""A run that comes back while retention deletes it: what its agent sends is kept, and the old run is gone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import rebuild, retention
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.models import AuditRow, Event, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
OLD = [fact for call in "abcde" for fact in (f.InputReady(call, "bash", {}, True), f.OutputReady(call, call))]
LATE = {
    "a text": [f.TextDelta(text="late")],
    "a start": [f.RunStarted(), f.TextDelta(text="late")],
    "a new call": [f.InputReady("new", "bash", {"command": "ls"}, True), f.TextDelta(text="late")],
    "a result of an old call": [f.OutputReady("a", "late"), f.TextDelta(text="late")],
}


@pytest.fixture
def old_run(source: Source, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that ended ten days ago; deleting it takes many steps."""
    monkeypatch.setattr(retention, "EVENTS", 4)
    monkeypatch.setattr(retention, "CALLS", 2)
    pk = group_commit.execute(RecordFacts(source, "r", [f.RunStarted(), *OLD, f.RunEnded()]))
    with allow_log_writes():
        Run.objects.filter(pk=pk).update(ended_at=timezone.now() - timedelta(days=10))
    run_cache.clear()
    return Run.objects.get(pk=pk)


@pytest.mark.parametrize("is_cached", [False, True], ids=["not cached", "cached by another process"])
@pytest.mark.parametrize("step", range(1, 9))
@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_what_is_sent_between_two_steps_is_kept_once_and_the_old_run_is_deleted(
    late: list[Any], step: int, is_cached: bool, old_run: Run, source: Source, limits: Any
) -> None:
    limits(retention_days=1)
    memory = run_memory.load_memory(Run.objects.select_related("source").get(pk=old_run.pk))
    before, ended_at = timezone.now() - timedelta(days=1), old_run.ended_at
    for _ in range(step):
        group_commit.execute(retention.DeleteRun(old_run.pk, before, Counter()))
    if is_cached:
        run_cache.store(memory)
    group_commit.execute(RecordFacts(source, "r", late))
    run = Run.objects.get(name="r")
    assert run.pk != old_run.pk and not list(rebuild.find_differences(run))
    texts = [event.decoded_fact for event in Event.objects.after(run, 0)]
    assert [fact.text for fact in texts if isinstance(fact, f.TextDelta)] == ["late"]
    assert set(ToolCall.objects.filter(run=run).values_list("call_id", flat=True)) <= {"new", "a"}
    assert rebuild.rebuild(check=True) == []
    gate.run_retention()
    assert not Run.objects.filter(pk=old_run.pk).exists()
    assert Run.objects.get() == run and Event.objects.exclude(run__name="r").count() == 0
    assert rebuild.rebuild(check=True) == []
    (act,) = AuditRow.objects.filter(act="retention")
    assert (act.run, act.details["ended_at"]) == ("r", ended_at.isoformat() if ended_at else "")
