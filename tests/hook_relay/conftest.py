"""A gate that answers by the name of the tool, and a folder for the open calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_gate import Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "wipe": "deny", "edited": "ask", "silent": "default"}) as running:
        running.edited = {"command": "ls -l"}
        yield running


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "toolcards" / "hooks"
