"""The kill switch from the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError

from toolcards.gate import emergency
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_is_on_until_it_is_off_and_says_what_it_is(run: Callable[..., str]) -> None:
    assert run("killswitch", "status") == "The kill switch is off.\n"
    assert run("killswitch", "on", "--reason", "a drill") == "The kill switch is on. 0 open calls were denied.\n"
    assert run("killswitch", "status") == "The kill switch is on: a drill\n" and emergency.is_kill_switch_on()
    assert run("killswitch", "off") == "The kill switch is off.\n" and not emergency.is_kill_switch_on()


def test_without_a_reason_none_is_shown(run: Callable[..., str]) -> None:
    run("killswitch", "on")
    assert run("killswitch", "status") == "The kill switch is on.\n"


@pytest.mark.parametrize(("count", "words"), [(1, " 1 open call was denied."), (2, " 2 open calls were denied.")])
def test_open_calls_are_denied_and_counted(run: Callable[..., str], a_call: Any, count: int, words: str) -> None:
    for number in range(count):
        a_call("approval-requested", call_id=f"call-{number}")
    assert words in run("killswitch", "on", "--reason", "a drill")
    assert {call.state for call in ToolCall.objects.all()} == {"output-denied"}


def test_another_word_changes_nothing(run: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="invalid choice"):
        run("killswitch", "true")
    assert not emergency.is_kill_switch_on()
