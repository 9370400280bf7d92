"""Counts the calls of our own functions in a server: `python -m tests.support.call_counter serve …`.

Every thread is counted, by the interpreter's profiler. SIGUSR1 begins again at 0; SIGUSR2 writes what was counted to
the file that `CALL_COUNTER_FILE` names. A coroutine counts each time it runs on. What a periodic job calls is left out.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = "CALL_COUNTER_FILE"
OWN = (str(ROOT / "toolcards") + os.sep, str(ROOT / "dashboard") + os.sep)
# Where periodic jobs begin, some on threads of their own.
PERIODIC = tuple(str(ROOT / part) for part in (
    "toolcards/transports/background/", "toolcards/gate/timekeeping.py", "toolcards/gate/approvals/expiry.py",
    "toolcards/gate/approvals/holds.py", "toolcards/notifications/dispatcher.py", "toolcards/reviewers/",
    "toolcards/clocks.py", "toolcards/outages.py", "dashboard/serving/processes/uvicorn_server.py",
))  # fmt: skip
START = str(ROOT / "dashboard/serving/runner.py")


class CallCounter:
    """The calls since `begin`, by module and function."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._last = time.monotonic()

    def begin(self, *_: Any) -> None:
        """Forget all calls so far."""
        self._calls = Counter()
        self._last = time.monotonic()

    def write(self, *_: Any) -> None:
        """Write the calls, and for how many seconds there were no others."""
        idle, calls = time.monotonic() - self._last, dict(self._calls)
        rows = [[module, name, count] for (module, name), count in sorted(calls.items())]
        path = Path(os.environ[FILE])
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"idle": idle, "calls": rows}))
        part.replace(path)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of our own; see `sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(OWN) and not is_periodic(frame):
            self._calls[frame.f_code.co_filename, frame.f_code.co_name] += 1
            self._last = time.monotonic()


def is_periodic(frame: FrameType | None) -> bool:
    """Whether a periodic job led to this frame: the outermost of our own below the server's start.

    The callers say so on every Python. Counting calls and returns does not: a coroutine that is thrown into returns
    more often than it is called.
    """
    outermost = ""
    while frame is not None and frame.f_code.co_filename != START:
        if frame.f_code.co_filename.startswith(OWN):
            outermost = frame.f_code.co_filename
        frame = frame.f_back
    return outermost.startswith(PERIODIC)


def main() -> None:
    """Run `manage.py` with the rest of the command line, and count."""
    counter = CallCounter()
    signal.signal(signal.SIGUSR1, counter.begin)
    signal.signal(signal.SIGUSR2, counter.write)
    sys.argv = [str(ROOT / "manage.py"), *sys.argv[1:]]
    threading.setprofile(counter.profile)
    sys.setprofile(counter.profile)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
