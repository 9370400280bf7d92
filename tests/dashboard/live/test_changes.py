"""One tick of the hub: the changed calls, as the database and the log have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.live import changes, queries
from dashboard.live.changes import ChangeReader
from tests.support.gate_commands import RecordFacts
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import committed_cards
from toolcards.gate.writer.transaction import SMALL_TEXT
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


piece = f.InputDelta


def test_a_look_reads_of_a_call_what_the_orm_reads(a_call: Callable[..., ToolCall]) -> None:
    value, completed = a_call("approval-requested", call_id="a"), a_call("output-error", call_id="b")
    looks = ChangeReader()
    calls_by_pk = {call.pk: call for call in looks._fetch({value.run_id, completed.run_id}, asked_only=False)}
    assert set(calls_by_pk) == {value.pk, completed.pk}
    for call in ToolCall.objects.filter(pk__in=calls_by_pk).select_related("run"):
        fields = [field.attname for field in ToolCall._meta.concrete_fields]
        assert [getattr(calls_by_pk[call.pk], name) for name in fields] == [getattr(call, name) for name in fields]
        assert rendering.render_uncached(calls_by_pk[call.pk]) == rendering.render_uncached(call)
    assert not looks._fetch({value.run_id, completed.run_id}, asked_only=False)


@pytest.mark.parametrize("count", [1, 3, 4, 6, 7])
def test_a_look_leaves_calls_beyond_its_limit_to_the_next_one_and_asks_for_it_only_then(
    count: int, a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_CALLS", 3)
    monkeypatch.setattr(changes, "MAX_CALLS", 3)
    looks = ChangeReader()
    run = a_run("r", *[f.InputReady(f"c{number}", "bash", {}, True) for number in range(count)])
    call_ids: list[str] = []
    looks_with_more = 0
    while True:
        looks._runs_with_more = set()
        call_ids += [call.call_id for call in looks._fetch({run.pk}, asked_only=False)]
        if not looks._runs_with_more:
            break
        looks_with_more += 1
    assert call_ids == [f"c{number}" for number in range(count)]
    assert looks_with_more == (count - 1) // 3
    assert looks._fetch({run.pk}, asked_only=False) == []


def test_looks_follow_what_streams_piece_by_piece_as_the_log_has_it(source: Any, a_run: Callable[..., Run]) -> None:
    size = 2 * SMALL_TEXT
    inputs = {
        "long": "l" * size,
        "odd": "\ud800" * size,
        "late": "x" * size,
        "vast": "v" * (queries.MAX_CACHED_TEXT + 1),
    }
    run = a_run(
        "streams", *[fact for call in inputs for fact in (f.InputStarted(call, "Bash"), piece(call, inputs[call]))]
    )
    forgetful, mindful, lagged = ChangeReader(), ChangeReader(), set()
    for number in range(40):
        pieces = [piece("long", f"{number}, "), piece("odd", "\x00\ud800 "), piece("vast", f"{number} ")]
        pieces += [piece("late", f"{number}\x00")] if number > 30 else []
        group_commit.execute(RecordFacts(source, "streams", pieces))
        committed_cards.clear()  # as if another process had written them
        forgetful._texts._texts.clear()
        there = {call.pk: call for call in ToolCall.objects.all()}
        lagged |= {call.call_id for call in there.values() if call.text_seq < call.seq}
        for looks in (forgetful, mindful):
            calls = looks._fetch({run.pk}, asked_only=False)
            assert len(calls) == (4 if number == 0 or number > 30 else 3)
            assert [str(call.as_card().text) for call in calls] == [
                str(there[call.pk].as_card().text) for call in calls
            ]
    assert lagged == set(inputs)
    # The odd text is in its card, the vast one is not cached.
    assert set(mindful._texts._texts) == {(run.pk, 1), (run.pk, 3)}
    group_commit.execute(RecordFacts(source, "streams", [f.InputReady(call, "Bash", {}, True) for call in inputs]))
    mindful._fetch({run.pk}, asked_only=False)
    assert not mindful._texts._texts


def test_a_look_asks_the_log_once_for_all_cards_of_a_run(
    source: Any, a_run: Callable[..., Run], django_assert_max_num_queries: Any
) -> None:
    names = [f"c{number}" for number in range(30)]
    run = a_run("wide", *[f.InputStarted(name, "Bash") for name in names])
    group_commit.execute(RecordFacts(source, "wide", [piece(name, "long " * SMALL_TEXT) for name in names]))
    looks = ChangeReader()
    for _ in range(3):
        group_commit.execute(RecordFacts(source, "wide", [piece(name, "a piece ") for name in names]))
        committed_cards.clear()  # as if another process had written them
        assert all(call.text_seq < call.seq for call in ToolCall.objects.all())
        with django_assert_max_num_queries(3):  # the calls, the run's name, the log
            calls = looks._fetch({run.pk}, asked_only=False)
            assert len(calls) == 30 and all(rendering.render_uncached(call) for call in calls)


def test_a_look_passes_over_calls_whose_run_is_gone(db: None) -> None:
    assert ChangeReader()._attach_runs([ToolCall(run_id=4711, ordinal=1)]) == []
