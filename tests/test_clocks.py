"""Clocks that follow neither the wall nor a pause."""

from __future__ import annotations

import pytest

from toolcards.clocks import PAUSE, Clock

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_clock_follows_neither_the_wall_nor_a_pause() -> None:
    now = {"wall": 5_000.0, "elapsed": 100.0}
    process = Clock(lambda: now["wall"], lambda: now["elapsed"])
    first = process.next_beat(None)
    now |= {"wall": 9_000.0, "elapsed": 102.0}  # the wall clock was set
    assert (process.steady(), process.working(), process.offset()) == (5_002.0, 5_002.0, 3_998.0)
    second = process.next_beat(first)
    now |= {"elapsed": 400.0}
    assert (process.steady(), process.working(), process.is_stale) == (5_300.0, 5_002.0 + PAUSE, True)
    third = process.next_beat(second)
    assert (third.steady, third.working, third.resumed) == (5_300.0, 5_002.0, 5_002.0)
