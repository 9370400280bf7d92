"""Workers that ended, hung or were killed: the supervisor notes each in a small file, and every process reads it.

The number continues across restarts of the server, as a counter of Prometheus may.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from toolcards.files import replace_file

FILE = "worker-ends.json"
RECENT = 600.0  # seconds that `/readyz` mentions the last one
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerEnds:
    """How many workers ended before they were asked to, and the last one: its time, process and reason."""

    count: int = 0
    at: float = 0.0
    pid: int = 0
    reason: str = ""

    @property
    def is_recent(self) -> bool:
        """Whether the last one ended within the last minutes."""
        return 0 <= time.time() - self.at < RECENT


def record_end(pid: int, reason: str) -> None:
    """Log and count a worker that ended and is replaced."""
    log.error("worker %d %s; another one is started", pid, reason)
    ends = WorkerEnds(read_ends().count + 1, time.time(), pid, reason)
    try:
        replace_file(_get_path(), json.dumps(asdict(ends)))
    except OSError as error:  # a full disk must not stop the supervisor
        log.warning("the end of worker %d is not counted: %s", pid, error)


def read_ends() -> WorkerEnds:
    """Return what the supervisor noted; nothing where no worker has ended."""
    try:
        return WorkerEnds(**json.loads(_get_path().read_text()))
    except (OSError, ValueError, TypeError):
        return WorkerEnds()


def describe_exit(code: int | None) -> str:
    """Return in words how a process ended, by its exit code."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _get_path() -> Path:
    return Path(settings.TOOLCARDS.data_dir) / FILE
