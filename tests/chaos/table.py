"""The table of `make chaos`: one row for each scenario and setup, with examples of what is wrong below it."""

from __future__ import annotations

from tests.chaos.judging import Row

COLUMNS = [
    ("scenario", 15), ("setup", 18), ("acked", 6), ("once", 6), ("lost", 5), ("doubled", 7), ("told once", 9),
    ("twice/never", 11), ("back (s)", 8), ("tracebacks", 10), ("replay", 6), ("audit", 6), ("result", 0),
]  # fmt: skip
HEAD = [
    " | ".join(name.ljust(width) for name, width in COLUMNS),
    "-|-".join("-" * (width or len(name)) for name, width in COLUMNS),
]


def line(row: Row) -> str:
    """Return the row as text, and examples of what is wrong."""
    if row.skip_reason:
        return " | ".join([row.scenario.ljust(15), row.setup.ljust(18), f"not run: {row.skip_reason}"])
    back = "never" if row.recovery is None else f"{row.recovery:.1f}"
    cells = [
        row.scenario, row.setup, row.acked, row.once, row.lost_count, row.doubled, row.told_once, row.told_otherwise,
        back, row.tracebacks, _word(row.replay), _word(row.audit),
        f"BROKEN: {', '.join(row.broken)}" if row.broken else "ok",
    ]  # fmt: skip
    text = " | ".join(str(cell).ljust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    return "\n".join([text, *(f"    {sample}" for sample in (row.samples[:20] if row.broken else []))])


def _word(has_passed: bool) -> str:
    return "clean" if has_passed else "BROKEN"
