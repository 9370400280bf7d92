"""One server in a data folder: a second one is refused, and learns who is there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dashboard.management.occupancy import LOCK, FolderOccupied, occupy_folder
from tests.support.tables import loop_over
from toolcards.backup import restoration


def test_a_second_server_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with occupy_folder(tmp_path) as announce:
        with (
            pytest.raises(FolderOccupied, match="at an address that is not known yet, since 2"),
            occupy_folder(tmp_path),
        ):
            pytest.fail("it entered")
        announce("http://127.0.0.1:8123 and a long address")
        announce("http://127.0.0.1:8123")
        with (
            pytest.raises(FolderOccupied, match=f"process {os.getpid()} at http://127.0.0.1:8123,"),
            occupy_folder(tmp_path),
        ):
            pytest.fail("it entered")
        assert json.loads((tmp_path / LOCK).read_text())["address"] == "http://127.0.0.1:8123"


def test_a_folder_is_free_as_soon_as_its_server_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyError), occupy_folder(tmp_path):
        raise KeyError
    with occupy_folder(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert (tmp_path / LOCK).exists()  # never deleted


@loop_over("text", ["", "{", "[]", "null", "{}", '{"pid": 1}'])
def test_a_server_that_has_not_written_its_name_is_just_starting(tmp_path: Path, text: str) -> None:
    with occupy_folder(tmp_path):
        (tmp_path / LOCK).write_text(text)
        with pytest.raises(FolderOccupied, match="a server that is just starting"), occupy_folder(tmp_path):
            pytest.fail("it entered")


def test_a_restore_looks_at_the_same_lock() -> None:
    assert restoration.LOCK == LOCK
