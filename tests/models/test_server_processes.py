"""What server processes tell each other: each one's newest commit, and one pulse of them all."""

from __future__ import annotations

import pytest

from toolcards.clocks import Beat
from toolcards.models import GroupCommit, Pulse


def test_a_pulse_is_read_as_a_beat() -> None:
    assert Pulse(pk=1, at=50.0, steady=40.0, paused=7.0, resumed=30.0).beat == Beat(50.0, 40.0, 7.0, 30.0)


def test_a_pulse_of_a_release_without_steady_time_takes_the_wall_time_for_it() -> None:
    assert Pulse(pk=1, at=50.0).beat == Beat(50.0, 50.0, 0.0, 0.0)


@pytest.mark.django_db
def test_a_process_has_one_row() -> None:
    for number in (1, 2):
        GroupCommit.objects.update_or_create(process="p", defaults={"number": number, "at": 1.0})
    assert [str(row) for row in GroupCommit.objects.all()] == ["p: 2"]
    assert GroupCommit._meta.default_permissions == Pulse._meta.default_permissions == ()
