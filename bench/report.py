"""Collects what was measured: a table for people, JSON for programs."""

import json
import platform
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


class Report:
    """Rows with a target, and notes with the numbers behind them."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.notes: dict[str, object] = {}
        self.began = time.time()

    def row(
        self, what: str, reached: float, *, at_least: float | None = None, at_most: float | None = None, unit: str = "x"
    ) -> None:
        """Write down a number and whether it is what it should be."""
        met = (at_least is None or reached >= at_least) and (at_most is None or reached <= at_most)
        target = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}" if at_most is not None else "-"
        shown = {"what": what, "target": target, "reached": round(reached, 3), "unit": unit, "met": met}
        self.rows.append(shown)
        print(f"  {what:58} {target:>9} {shown['reached']:>9} {unit:4} {'' if met else 'MISSED'}", flush=True)

    def note(self, what: str, value: object) -> None:
        """Write down the numbers that a row was made of."""
        self.notes[what] = value
        print(f"    {what}: {value}", flush=True)

    def save(self) -> None:
        """Write bench/results.json."""
        about = {"python": platform.python_version(), "machine": platform.machine(), "began": self.began}
        took = round(time.time() - self.began, 1)
        everything = {"about": about, "seconds": took, "rows": self.rows, "notes": self.notes}
        RESULTS.write_text(json.dumps(everything, indent=1))
        missed = [row["what"] for row in self.rows if not row["met"]]
        print("\n" + "\n".join([f"{len(self.rows)} measured in {took:.0f} s, {len(missed)} missed", *missed]))
