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
    from tests.support.services import find_program, postgres_server, redis

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
            for name in ("empty", "large"):
                (folder / name).mkdir()
            empty = stack.enter_context(postgres_server(folder / "empty", durable=True))
            large = stack.enter_context(postgres_server(folder / "large", durable=True))
            settings = {"TOOLCARDS_DATABASE_URL": large.url, "TOOLCARDS_DATA_DIR": str(folder / "postgresql")}
            with servers.toolcards(**settings) as server:
                pages.fill(server.port, stores.SEED_CALLS)
            row_counts = stores.multiply_postgresql(large.url, calls * 3)
            environments["PostgreSQL, empty"] = {"TOOLCARDS_DATABASE_URL": empty.url}
            environments[f"PostgreSQL, {row_counts['toolcards_toolcall']:,} calls"] = settings
        if find_program("postgres") is not None and find_program("redis-server") is not None:
            (folder / "workers").mkdir()
            joint = stack.enter_context(postgres_server(folder / "workers", durable=True))
            environments["PostgreSQL and Redis, 2 workers"] = {
                "TOOLCARDS_DATABASE_URL": joint.url, "TOOLCARDS_REDIS_URL": stack.enter_context(redis(folder)),
                "TOOLCARDS_WORKERS": "2",
            }  # fmt: skip
        running = {
            name: stack.enter_context(servers.toolcards(**environment)) for name, environment in environments.items()
        }
        base = stack.enter_context(servers.baseline())
        time.sleep(SETTLE)
        _report_costs(report, {"bare ASGI": base, **running}, QUICK_SECONDS if quick else SECONDS)


def _report_costs(report: Report, running: dict[str, servers.Server], seconds: float) -> None:
    before = {name: _read_counters(server) for name, server in running.items()}
    time.sleep(seconds)
    for name, server in running.items():
        cpu, wake_ups, byte_count = (
            end - start for end, start in zip(_read_counters(server), before[name], strict=True)
        )
        target = {} if name == "bare ASGI" else {"at_most": 0.2}
        report.row(f"{name}: CPU while idle", 100 * cpu / seconds, unit="% of a core", **target)
        report.row(f"{name}: wake-ups while idle", wake_ups / seconds, unit="/s", **(target and {"at_most": 10}))
        report.row(f"{name}: written while idle", byte_count, unit="B", **(target and {"at_most": 0}))


def _read_counters(server: servers.Server) -> tuple[float, int, int]:
    """Return the CPU, the wake-ups of all threads, and the bytes written, of the server and its workers."""
    pids = [server.process.pid]
    for pid in pids:
        for children in Path(f"/proc/{pid}").glob("task/*/children"):
            pids += map(int, children.read_text().split())
    cpu, switches, byte_count = 0.0, 0, 0
    for pid in pids:
        cpu += time.clock_gettime((~pid << 3) | 2)
        for status in Path(f"/proc/{pid}").glob("task/*/status"):
            lines = status.read_text().splitlines()
            switches += next(int(line.split()[1]) for line in lines if line.startswith("volunt"))
        counters = Path(f"/proc/{pid}/io").read_text().splitlines()
        byte_count += next(int(line.split()[1]) for line in counters if line.startswith("write_bytes"))
    return cpu, switches, byte_count
