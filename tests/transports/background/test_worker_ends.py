"""Workers that ended are counted in a file, which damage cannot hurt."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from toolcards.transports.background import worker_ends


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGKILL, "was ended by SIGKILL"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (-200, "was ended by signal 200"),
    ],
)
def test_the_reason_is_an_exit_code_or_a_signal(code: int, words: str) -> None:
    assert worker_ends.describe_exit(code) == words


def test_each_end_is_logged_and_counted(tmp_path: Path, limits: Any, caplog: pytest.LogCaptureFixture) -> None:
    limits(data_dir=tmp_path)
    assert not worker_ends.read_ends().is_recent
    with caplog.at_level(logging.ERROR, worker_ends.__name__):
        for number in (1, 2):
            worker_ends.record_end(number, "was ended by SIGKILL")
    ends = worker_ends.read_ends()
    assert (ends.count, ends.pid, ends.reason, ends.is_recent) == (2, 2, "was ended by SIGKILL", True)
    assert "worker 2 was ended by SIGKILL" in caplog.text


@pytest.mark.parametrize("text", ["", "[]", '{"count": 1, "color": 2}'])
def test_a_damaged_file_counts_from_the_beginning(tmp_path: Path, limits: Any, text: str) -> None:
    limits(data_dir=tmp_path)
    (tmp_path / worker_ends.FILE).write_text(text)
    worker_ends.record_end(1, "ended with exit code 0")
    assert worker_ends.read_ends().count == 1


def test_a_place_that_takes_no_file_stops_nothing(tmp_path: Path, limits: Any) -> None:
    limits(data_dir=tmp_path / "absent")
    worker_ends.record_end(1, "ended with exit code 0")
    assert worker_ends.read_ends().count == 0
