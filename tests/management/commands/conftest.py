"""Commands as they are typed, and what they print."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.support.own_database import own_database


@pytest.fixture
def run() -> Callable[..., str]:
    """Give `run(command, *words)`: what the command prints."""

    def call(*words: str) -> str:
        output = io.StringIO()
        call_command(*words, stdout=output, stderr=output)
        return output.getvalue()

    return call


@pytest.fixture
def database(transactional_db: None, tmp_path: Path, limits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a database in a data folder of its own, to which this process is connected."""
    folder = tmp_path / "data"
    folder.mkdir()
    with own_database(folder, limits, monkeypatch) as path:
        yield path
