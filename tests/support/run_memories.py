"""Runs as the writer knows them, without rows in the database."""

from __future__ import annotations

from collections import Counter
from typing import Any

from toolcards.core.runs.run_context import SkippedFrames
from toolcards.core.runs.run_state import RunContext, RunState
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models import Run, Source


def make_memory(pk: int = 1, name: str = "r", context: RunContext | None = None, **columns: Any) -> RunMemory:
    """Return the memory of a run without a row in the database."""
    row = Run(pk=pk, source=Source(pk=1, name="an agent"), name=name, **columns)
    return RunMemory(
        row=row, board=RunState(context), seq=row.seq, numbers=[0], counts=Counter(), states={}, waiting=set(),
        asks={}, skipped=SkippedFrames(),
    )  # fmt: skip
