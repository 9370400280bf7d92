"""Collects the measurements: a table for people, JSON for programs."""

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
        self, name: str, value: float, *, at_least: float | None = None, at_most: float | None = None, unit: str = "x"
    ) -> None:
        """Record a number and whether it meets its target."""
        is_met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        target = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}" if at_most is not None else "-"
        row = {"what": name, "target": target, "reached": round(value, 3), "unit": unit, "met": is_met}
        self.rows.append(row)
        print(f"  {name:58} {target:>9} {row['reached']:>9} {unit:4} {'' if is_met else 'MISSED'}", flush=True)

    def note(self, name: str, value: object) -> None:
        """Record the numbers behind a row."""
        self.notes[name] = value
        print(f"    {name}: {value}", flush=True)

    def save(self) -> None:
        """Write bench/results.json."""
        about = {"python": platform.python_version(), "machine": platform.machine(), "began": self.began}
        took = round(time.time() - self.began, 1)
        everything = {"about": about, "seconds": took, "rows": self.rows, "notes": self.notes}
        RESULTS.write_text(json.dumps(everything, indent=1))
        misses = [row["what"] for row in self.rows if not row["met"]]
        print("\n" + "\n".join([f"{len(self.rows)} measured in {took:.0f} s, {len(misses)} missed", *misses]))
