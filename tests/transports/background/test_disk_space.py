"""The used share of the data directory's disk, and when it is a warning."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcards.transports.background import disk_space


@pytest.mark.parametrize(
    ("total", "free", "limit", "percentage"),
    [(100, 21, 80, None), (100, 20, 80, 80), (100, 0, 80, 100), (100, 0, 0, None), (0, 0, 80, None)],
)
def test_a_warning_begins_at_its_share(
    monkeypatch: pytest.MonkeyPatch, limits: Any, total: int, free: int, limit: int, percentage: int | None
) -> None:
    limits(disk_warning=limit)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=total, used=total - free, free=free))
    assert disk_space.find_warning() == percentage


def test_a_disk_that_is_away_has_no_share(limits: Any, tmp_path: Path) -> None:
    limits(data_dir=tmp_path / "absent", disk_warning=1)
    assert disk_space.read_used_share() is None and disk_space.find_warning() is None
