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
    "toolcards/clocks.py", "toolcards/outages.py", "dashboard/serving/runner.py",
))  # fmt: skip


class CallCounter:
    """The calls since `begin`, by module and function."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._last = time.monotonic()
        self._threads = threading.local()

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
        """Note a call or a return of our own; see `sys.setprofile`."""
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(OWN):
            return
        stack: list[bool] = self._threads.__dict__.setdefault("stack", [])
        if event == "return":
            if stack:
                stack.pop()
            return
        is_periodic = stack[-1] if stack else code.co_filename.startswith(PERIODIC)
        stack.append(is_periodic)
        if not is_periodic:
            self._calls[code.co_filename, code.co_name] += 1
            self._last = time.monotonic()


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
