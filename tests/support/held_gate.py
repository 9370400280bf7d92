"""A gate that holds one of its answers, and code in a forked child."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

from tests.support.fake_gate import Answer, Gate
from tests.support.server import PATIENCE


def hold_stage(gate: Gate, stage: str) -> tuple[threading.Event, threading.Event]:
    """Hold the answer of this stage: return what says that it was asked for, and what lets it go."""
    value, release = threading.Event(), threading.Event()

    def tamper(now: str, honest: Any) -> Answer | None:
        if now == stage:
            value.set()
            release.wait(PATIENCE)
        return None

    gate.tamper = tamper
    return value, release


def in_child(work: Any) -> Any:
    """Return what the work returns in a forked process."""
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    child = context.Process(target=lambda: results.put(work()))
    child.start()
    try:
        return results.get(timeout=PATIENCE)
    finally:
        child.join(PATIENCE)
