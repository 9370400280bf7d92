"""A database and a data folder of one test's own, in this process: it may be copied, replaced and broken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.support.server import migrated
from toolcards.audit import anchor


@contextmanager
def own_database(folder: Path, limits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Connect this process to a fresh SQLite database in the folder; yield its path."""
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's file")
    connection.close()
    path = folder / "toolcards.sqlite3"
    shutil.copyfile(migrated(), path)
    monkeypatch.setitem(connection.settings_dict, "NAME", str(path))
    limits(data_dir=folder)
    anchor.reset()
    try:
        yield path
    finally:
        connection.close()
        monkeypatch.undo()
        anchor.reset()
