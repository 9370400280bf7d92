"""Break-glass from the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import CommandError

from toolcards.models import BreakGlass

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_is_switched_on_for_a_while_and_off(run: Callable[..., str]) -> None:
    assert run("breakglass", "on", "--reason", "the pager", "--minutes", "5") == "Break-glass is on for 5 minutes.\n"
    row = BreakGlass.objects.get()
    assert (row.by, row.reason, round(row.until - row.at)) == ("the command line", "the pager", 300)
    assert run("breakglass", "off") == "Break-glass is off.\n"
    row.refresh_from_db()
    assert row.ended_at is not None


@pytest.mark.parametrize("minutes", ["0", "-1", "481", "nan", "inf"])
def test_a_time_outside_the_limits_is_refused(run: Callable[..., str], minutes: str) -> None:
    with pytest.raises(CommandError):
        run("breakglass", "on", "--reason", "the pager", f"--minutes={minutes}")
    assert not BreakGlass.objects.exists()


def test_without_a_reason_it_stays_off(run: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="reason"):
        run("breakglass", "on")
    assert not BreakGlass.objects.exists()
