"""Stored texts come under the current key, and the command says how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from toolcards.gate.maintenance import rekey
from toolcards.gate.writer.cache import run_cache
from toolcards.management.commands import reseal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_progress_is_kept() -> Iterator[None]:
    rekey._get_progress_file().unlink(missing_ok=True)
    yield
    rekey._get_progress_file().unlink(missing_ok=True)


@pytest.mark.parametrize("batch", ["0", "-1", "10001"])
def test_batches_are_bounded(batch: str) -> None:
    with pytest.raises(CommandError, match="1 to 10000"):
        call_command("reseal", "--batch", batch)


def test_texts_with_an_older_key_are_counted_and_then_encrypted_again(
    run: Callable[..., str], a_call: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reseal, "EVERY", 2)
    a_call("output-available")
    assert "0 with older keys, 0 not encrypted" in run("reseal", "--check")
    old_key = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key", [old_key]
    run_cache.clear()
    with pytest.raises(CommandError, match=r"[1-9]\d* texts are not encrypted with the current key"):
        run("reseal", "--check")
    output = run("reseal", "--batch", "1")
    assert "toolcards_event.fact: 1 checked, 1 of them stale" in output and "Re-encrypted: 0." not in output
    assert "Re-encrypted: 0." in run("reseal")
    settings.SECRET_KEY_FALLBACKS = []
    run_cache.clear()
    assert "0 with older keys" in run("reseal", "--check")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = old_key, ["another key"]
    run("reseal")  # as it was


def test_texts_that_no_key_decrypts_are_counted_and_left(run: Callable[..., str], a_call: Any, settings: Any) -> None:
    a_call("output-available")
    old_key = settings.SECRET_KEY
    settings.SECRET_KEY = "another key"
    run_cache.clear()
    output = run("reseal")
    assert "No key decrypts" in output and "Re-encrypted: 0." in output
    with pytest.raises(CommandError, match="are not encrypted with the current key"):
        run("reseal", "--check")
    settings.SECRET_KEY = old_key
    run_cache.clear()
