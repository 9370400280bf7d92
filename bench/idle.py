"""What a server costs while nothing happens: CPU, wake-ups and bytes written, whatever is stored."""

import contextlib
import tempfile
import time
from pathlib import Path

from bench import pages, servers, stores
from bench.report import Report

SECONDS, QUICK_SECONDS = 120.0, 20.0
SETTLE = 100.0  # seconds until the server counts as unused, and once-a-minute jobs have run after the load
CALLS, QUICK_CALLS = 100_000, 10_000


def measure(report: Report, *, quick: bool) -> None:
    """Measure servers that no one uses."""
    from tests.support.services import find_program, postgres_server

    calls = QUICK_CALLS if quick else CALLS
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolcards-bench-")))
        with servers.toolcards(TOOLCARDS_DATA_DIR=str(folder / "many")) as server:
            pages.fill(server.port, stores.SEED_CALLS)
        row_counts = stores.multiply(next((folder / "many").glob("*.sqlite3")), calls * 3)
        environments = {
            "SQLite, empty": {},
            f"SQLite, {row_counts['toolcards_toolcall']:,} calls": {"TOOLCARDS_DATA_DIR": str(folder / "many")},
        }
        if find_program("postgres") is not None:
            (folder / "postgresql").mkdir()
            database = stack.enter_context(postgres_server(folder / "postgresql", durable=True))
            environments["PostgreSQL"] = {"TOOLCARDS_DATABASE_URL": database.url}
        running = {
            name: stack.enter_context(servers.toolcards(**environment)) for name, environment in environments.items()
        }
        if "PostgreSQL" in running:
            pages.fill(running["PostgreSQL"].port, stores.SEED_CALLS)
        base = stack.enter_context(servers.baseline())
        time.sleep(SETTLE)
        _report_costs(report, {"bare ASGI": base, **running}, QUICK_SECONDS if quick else SECONDS)


def _report_costs(report: Report, running: dict[str, servers.Server], seconds: float) -> None:
    before = {name: (server.cpu(), *_read_counters(server)) for name, server in running.items()}
    time.sleep(seconds)
    for name, server in running.items():
        cpu, wake_ups, byte_count = (
            end - start for end, start in zip((server.cpu(), *_read_counters(server)), before[name], strict=True)
        )
        target = {} if name == "bare ASGI" else {"at_most": 0.2}
        report.row(f"{name}: CPU while idle", 100 * cpu / seconds, unit="% of a core", **target)
        report.row(f"{name}: wake-ups while idle", wake_ups / seconds, unit="/s", **(target and {"at_most": 10}))
        report.row(f"{name}: written while idle", byte_count, unit="B", **(target and {"at_most": 0}))


def _read_counters(server: servers.Server) -> tuple[int, int]:
    """Return how often the threads have woken up, and how many bytes they have written to disk."""
    process = Path(f"/proc/{server.process.pid}")
    switches = 0
    for status in process.glob("task/*/status"):
        switches += next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("volunt"))
    byte_count = next(line for line in (process / "io").read_text().splitlines() if line.startswith("write_bytes"))
    return switches, int(byte_count.split()[1])
