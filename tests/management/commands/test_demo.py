"""The demo is a client: it says what it lacks before it plays anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import CommandError

from toolcards.connect.offline_probe import reserve_dead_address
from toolcards.demo import player

KEY = ["--key", "tck_a_key"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "An agent key is required"),
        ([*KEY, "--speed", "0"], "--speed must be above 0"),
        ([*KEY, "--speed", "-1"], "--speed must be above 0"),
        ([*KEY, "--speed", "nan"], "--speed must be above 0"),
        ([*KEY, "--rounds", "0"], "--rounds at least 1"),
        ([*KEY, "--url", "127.0.0.1:8000"], "is not an address such as"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.delenv("TOOLCARDS_AGENT_KEY", raising=False)
    with pytest.raises(CommandError, match=reason):
        run("demo", *words)


def test_a_server_that_is_not_there_is_one_line(run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCARDS_AGENT_KEY", "tck_a_key")
    monkeypatch.setattr(player, "START_PATIENCE", 0.0)
    with reserve_dead_address() as url, pytest.raises(CommandError, match="The demo could not be played"):
        run("demo", "--once", "--url", f"{url}/")
