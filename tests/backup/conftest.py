"""A database of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.own_database import own_database


@pytest.fixture
def database(transactional_db: None, tmp_path: Path, limits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a database in a data folder of its own, to which this process is connected."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    with own_database(folder, limits, monkeypatch) as path:
        yield path
