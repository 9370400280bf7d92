"""Cards are compared with the log, and rebuilt from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError

from toolcards.gate.writer.cache import run_cache
from toolcards.models import ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_card_that_differs_is_named_and_repaired(run: Callable[..., str], a_call: Any) -> None:
    a_call("output-available")
    assert run("replay", "--check") == run("replay") == "The log and the cards agree.\n"
    with allow_log_writes():
        ToolCall.objects.update(state="output-error")
    run_cache.clear()
    with pytest.raises(CommandError, match=r"[1-9] differences between the log and the stored cards"):
        run("replay", "--check")
    assert ToolCall.objects.get().state == "output-error"  # only compared
    output = run("replay")
    assert "run-1" in output and "Repaired: " in output
    assert ToolCall.objects.get().state == "output-available" and "agree" in run("replay", "--check")
