"""`python -m tests.chaos [--only NAME …] [--store sqlite|postgres] [--workers N] [--server uvicorn|daphne]`.

Breaks real servers under load, one scenario after the other, and compares what their clients know with what the
servers show. Ends with 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import sys

from tests.chaos.scenarios import SCENARIOS
from tests.chaos.stage import Machines, Setup
from tests.chaos.table import HEAD, line

SETUPS = [
    Setup("sqlite", 1, "uvicorn"), Setup("sqlite", 1, "daphne"), Setup("postgres", 1, "uvicorn"),
    Setup("postgres", 4, "uvicorn"), Setup("postgres", 1, "daphne"),
]  # fmt: skip


def main() -> int:
    """Play the scenarios that were asked for, on the setups that were asked for."""
    listed = "\n".join(f"  {name:16} {scenario.title}" for name, scenario in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, epilog=listed, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", default=list(SCENARIOS))
    parser.add_argument("--store", choices=["sqlite", "postgres"])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--server", choices=["uvicorn", "daphne"])
    args = parser.parse_args()
    setups = [
        setup for setup in SETUPS
        if args.store in (None, setup.store) and args.workers in (None, setup.workers)
        and args.server in (None, setup.server)
    ]  # fmt: skip
    machines, broken = Machines(), 0
    print(*HEAD, sep="\n", flush=True)
    try:
        for name in args.only:
            for setup in setups:
                row = SCENARIOS[name].play(setup, machines)
                broken += bool(row.broken)
                print(line(row), flush=True)
    finally:
        machines.remove()
    print(f"{broken} scenarios broke a promise." if broken else "All promises were kept.")
    return 1 if broken or not setups else 0


if __name__ == "__main__":
    sys.exit(main())
