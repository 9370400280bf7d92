"""Databases side by side: PostgreSQL and SQLite; a store of ten million events and a small one."""

import contextlib
import functools
import sqlite3
import tempfile
from pathlib import Path
from statistics import median

from bench import pages, posts, servers
from bench.ingest import measure_rate
from bench.report import Report

EVENTS, QUICK_EVENTS = 10_000_000, 1_000_000
SEED_CALLS = 5_000  # calls that a server stores itself; the others are copies of them under other runs
FIRST_PAGES = ("Now", "Runs", "Calls", "Calls of a tool", "Approvals", "Audit", "Run of 1,000 calls")
PARTIALS = 7  # preliminary outputs of each of them, so that a call has ten events
COPIED = ("toolcards_run", "toolcards_event", "toolcards_toolcall")


def measure_postgresql(report: Report, ours: servers.Server, *, quick: bool) -> None:
    """Compare ingest on PostgreSQL and SQLite per CPU second.

    Only the CPU of Toolcards counts, not that of PostgreSQL.
    """
    from tests.support.services import find_program, postgres_server

    if find_program("postgres") is None:
        report.note("PostgreSQL", "is not installed, so it is not measured")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolcards-bench-")))
        database = stack.enter_context(postgres_server(folder, durable=True))
        postgresql = stack.enter_context(servers.toolcards(TOOLCARDS_DATABASE_URL=database.url))
        for name, rates in _compare({"SQLite": ours, "PostgreSQL": postgresql}, quick=quick).items():
            report.note(f"{name}: per CPU second", {store: round(median(values)) for store, values in rates.items()})
            ratio = median(rates["PostgreSQL"]) / median(rates["SQLite"])
            report.row(f"{name} on PostgreSQL per CPU second, of SQLite", ratio, at_least=0.7)


def measure_large_store(report: Report, *, quick: bool) -> None:
    """Compare a large store with a small one.

    The pages of both are full.
    """
    events = QUICK_EVENTS if quick else EVENTS
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolcards-bench-")))
        with servers.toolcards(TOOLCARDS_DATA_DIR=str(folder)) as server:
            pages.fill(server.port, SEED_CALLS, partials=PARTIALS)
        row_counts = multiply(next(folder.glob("*.sqlite3")), events)
        report.note("rows in the large store", row_counts)
        few = stack.enter_context(servers.toolcards())
        pages.fill(few.port, SEED_CALLS, partials=PARTIALS)  # pages as full as those of the large store
        many = stack.enter_context(servers.toolcards(TOOLCARDS_DATA_DIR=str(folder)))
        for name, rates in _compare({"few": few, "many": many}, quick=quick).items():
            ratio = median(rates["few"]) / median(rates["many"])
            report.row(f"{name}: CPU with {row_counts['toolcards_event']:,} events, of few", ratio, at_most=1.3)
        people = {"few": servers.Person(few.port), "many": servers.Person(many.port)}
        for page in (page for page in pages.list_pages(SEED_CALLS) if page.name in FIRST_PAGES):
            cpu: dict[str, list[float]] = {"few": [], "many": []}
            for _ in range(1 if quick else 3):
                for name, server in (("few", few), ("many", many)):
                    cpu[name].append(pages.time_page(server, people[name], page, quick=True)[1])
            report.note(f"{page.name}: ms of CPU", {name: round(median(values), 1) for name, values in cpu.items()})
            ratio = median(cpu["many"]) / median(cpu["few"])
            report.row(f"{page.name} with {row_counts['toolcards_event']:,} events, of few", ratio, at_most=1.3)


def _compare(stores: dict[str, servers.Server], *, quick: bool) -> dict[str, dict[str, list[float]]]:
    """Return frames and posts per second of the server's CPU for each server, in turns."""
    measures = {
        "ingest, 20 sockets": lambda server, turn: measure_rate(server, "", 20, 0.8, f"stores-{turn}")[1],
        "ingest by HTTP, 8 senders": lambda server, turn: posts.measure_ingest(server, 8, 0.8, f"stores-{turn}"),
    }
    rates: dict[str, dict[str, list[float]]] = {name: {store: [] for store in stores} for name in measures}
    for turn in range(1 if quick else 5):
        for name, measure in measures.items():
            for store, server in stores.items():
                rates[name][store].append(measure(server, turn))
    return rates


def multiply(path: Path, events: int) -> dict[str, int]:
    """Copy the runs of a stopped server until its log suffices.

    Events and calls are copied with their run. Encrypted texts are bound to their column, not to their row, so a server
    reads the copies. Return the number of rows of each table.
    """
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=OFF")
        count = functools.partial(_count, database)
        copies = 0
        while count("toolcards_event") < events:
            copies += 1
            step = database.execute("SELECT max(id) FROM toolcards_run").fetchone()[0]
            database.execute("BEGIN")
            for table in COPIED:
                names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                # "Indexed" without being so: else the server would index the copies while it is measured.
                values = {"id": "NULL", "run_id": f"run_id + {step}", "indexed": "TRUE"}
                if table == "toolcards_run":
                    values = {"id": f"id + {step}", "name": f"name || '-{copies}'"}
                columns = ", ".join(f'"{name}"' for name in names)
                expressions = ", ".join(values.get(name, f'"{name}"') for name in names)
                database.execute(f"INSERT INTO {table} ({columns}) SELECT {expressions} FROM {table} ORDER BY id")
            database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {table: count(table) for table in COPIED}


def multiply_postgresql(url: str, events: int) -> dict[str, int]:
    """Do the same in PostgreSQL, where no server runs on the database."""
    import psycopg

    def count(table: str) -> int:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    columns_of = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    with psycopg.connect(url, autocommit=True) as database:
        copies = 0
        while count("toolcards_event") < events:
            copies += 1
            step = database.execute("SELECT max(id) FROM toolcards_run").fetchone()[0]
            for table in COPIED:
                names = [name for (name,) in database.execute(columns_of, (table,)).fetchall()]
                values = {"run_id": f"run_id + {step}", "indexed": "TRUE"}
                if table == "toolcards_run":
                    values = {"id": f"id + {step}", "name": f"name || '-{copies}'"}
                else:
                    names.remove("id")
                columns = ", ".join(f'"{name}"' for name in names)
                expressions = ", ".join(values.get(name, f'"{name}"') for name in names)
                database.execute(f"INSERT INTO {table} ({columns}) SELECT {expressions} FROM {table} ORDER BY id")
        database.execute(
            "SELECT setval(pg_get_serial_sequence('toolcards_run', 'id'), (SELECT max(id) FROM toolcards_run))"
        )
        database.execute("VACUUM ANALYZE")
        return {table: count(table) for table in COPIED}


def _count(database: sqlite3.Connection, table: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
