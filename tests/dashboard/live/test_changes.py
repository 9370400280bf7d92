"""One tick of the hub: the changed calls, as the database and the log have them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.live import changes
from dashboard.live.changes import ChangeReader
from tests.support.fact_samples import SAMPLES
from tests.support.gate_commands import RecordFacts
from toolcards import models
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
        "vast": "v" * (changes.MAX_CACHED_TEXT + 1),
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


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8" * 2 + "i9J0"
ODD_VALUES = [SECRET, "\ud83d", "\x00", "\u202e", 10**20, 1e-7, None, [], {"a": [{"b": ""}]}, "é" * 3_000]


def _draw_facts(rng: random.Random) -> list[Any]:
    """Return a few facts about calls of the run, in any order that agents may send them."""
    facts = []
    for _ in range(rng.randint(1, 4)):
        call, value = f"c{rng.randint(1, 4)}", rng.choice(ODD_VALUES)
        sample: Any = rng.choice([fact for fact in SAMPLES if type(fact).__name__.startswith(("Input", "Output"))])
        call_facts = [
            f.InputDelta(call, rng.choice(["text ", "\ud83d", SECRET, "long " * SMALL_TEXT])),
            f.InputReady(call, "Bash", {"command": value}, True),
            f.OutputReady(call, value),
            replace(sample, call_id=call),
        ]
        facts.append(rng.choice(call_facts))
    return facts


def _draw(calls: list[ToolCall]) -> list[tuple[Any, ...]]:
    rendering.card_cache.clear()
    models._shown_cards.clear()
    return [(call.ordinal, call.rev, call.seq, rendering.render(call)) for call in calls]


@pytest.mark.parametrize("seed", range(6))
def test_cards_of_this_process_look_like_those_of_another_and_never_go_backwards(source: Any, seed: int) -> None:
    rng = random.Random(seed)
    run, near, far = 0, ChangeReader(), ChangeReader()
    versions: dict[int, tuple[int, int]] = {}
    reads_without_rows = 0
    for number in range(30):
        run = group_commit.execute(RecordFacts(source, "run", _draw_facts(rng)))
        if rng.random() < 0.3 and number < 29:
            continue  # several commits in one look
        calls = near._fetch({run}, asked_only=False)
        reads_without_rows += sum(call.written_card is not None for call in calls)
        from_writer = _draw(calls)
        committed_cards.clear()
        assert _draw(far._fetch({run}, asked_only=False)) == from_writer
        for ordinal, rev, seq, _ in from_writer:
            assert versions.get(ordinal, (0, 0)) < (seq, rev)
            versions[ordinal] = seq, rev
    assert versions == {call.ordinal: (call.seq, call.rev) for call in ToolCall.objects.filter(run=run)}
    assert reads_without_rows > 5


def test_a_version_of_this_process_is_not_opened(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    run = a_run("own", f.InputReady("c1", "Bash", {"command": "ls"}, True))
    openings = []
    for place in (ToolCall._meta.get_field("card"), ToolCall._meta.get_field("text")):
        load = place.from_db_value
        monkeypatch.setattr(
            place, "from_db_value", lambda *arguments, load=load: openings.append(1) or load(*arguments)
        )
    changes._prepare_columns.cache_clear()
    (call,) = ChangeReader()._fetch({run.pk}, asked_only=False)
    assert "ls" in rendering.render(call) and not openings
    committed_cards.clear()
    (call,) = ChangeReader()._fetch({run.pk}, asked_only=False)
    assert "ls" in rendering.render_uncached(call) and openings
    changes._prepare_columns.cache_clear()
