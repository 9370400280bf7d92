"""What a look reads of changed calls: the same from this process's writer as from the rows of another's."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.live import queries
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
    queries._prepare_columns.cache_clear()
    (call,) = ChangeReader()._fetch({run.pk}, asked_only=False)
    assert "ls" in rendering.render(call) and not openings
    committed_cards.clear()
    (call,) = ChangeReader()._fetch({run.pk}, asked_only=False)
    assert "ls" in rendering.render_uncached(call) and openings
    queries._prepare_columns.cache_clear()
