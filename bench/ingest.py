"""Frames committed and acknowledged per second, next to an application that only parses them."""

import time
from statistics import median

from bench import load, servers
from bench.answers import raw_rows
from bench.fanout import open_watcher
from bench.load import Sender, Talk, pump, wait_until_idle
from bench.report import Report

WINDOW = 500  # frames in flight per socket
WARM = 0.4
DELTA = b'"type":"tool.input.delta","call_id":"c1","delta":"twenty characters.. "}'


def open_senders(server: servers.Server, path: str, count: int, label: str) -> list[Sender]:
    """Return that many agents, each with its own run on Toolcards."""
    if path:
        return [Sender(load.open_socket(server.port, path), Talk(), WINDOW) for _ in range(count)]
    return [
        Sender(load.agent(server.port, servers.KEY, f"{label}-{number}"), Talk(), WINDOW) for number in range(count)
    ]


def measure_rate(server: servers.Server, path: str, count: int, seconds: float, label: str) -> tuple[float, float]:
    """Return frames per second, and per second of the server's CPU.

    What the search index does afterward in the background is not part of it.
    """
    if not path:
        server.wait_for_index()
    talking = open_senders(server, path, count, label)
    try:
        pump(talking, WARM)
        cpu, began = server.cpu(), time.perf_counter()
        frame_count = pump(talking, seconds)
        while not frame_count and time.perf_counter() - began < 15:  # the server was too busy to commit within the time
            frame_count = pump(talking, seconds)
        took, cpu = time.perf_counter() - began, server.cpu() - cpu
        wait_until_idle(talking)
        return frame_count / took, frame_count / max(cpu, 0.01)
    finally:
        for sender in talking:
            sender.link.close()


def measure_stored(report: Report, ours: servers.Server, *, quick: bool) -> None:
    """Compare events committed end to end with sqlite3's executemany.

    Both write to the same disk.
    """
    rates, raw_rates = [], []
    for turn in range(1 if quick else 3):
        raw_rates.append(raw_rows())
        rates.append(measure_rate(ours, "", 20, 0.8, f"stored-{turn}")[0])
    report.note("rows/s: toolcards end to end, raw executemany alone", [round(median(rates)), round(median(raw_rates))])
    report.row("committed end to end, of raw executemany(100) alone", median(rates) / median(raw_rates), at_least=0.35)


def measure(report: Report, ours: servers.Server, base: servers.Server, *, quick: bool) -> None:
    """Interleave the three variants, for 1, 20 and 50 sockets."""
    rounds, seconds = (1, 0.8) if quick else (3, 1.5)
    variants = {"bare": (base, "/bare/"), "stock": (base, "/stock/"), "toolcards": (ours, "")}
    for count in (20,) if quick else (1, 20, 50):
        rates: dict[str, list[float]] = {name: [] for name in variants}
        works: dict[str, list[float]] = {name: [] for name in variants}
        for turn in range(rounds):
            for name, (server, path) in variants.items():
                per_second, per_cpu = measure_rate(server, path, count, seconds, f"ingest-{count}-{turn}")
                rates[name].append(per_second)
                works[name].append(per_cpu)
        numbers = {name: round(median(values)) for name, values in rates.items()}
        per_cpu = {name: max(1, round(median(values))) for name, values in works.items()}
        report.note(f"ingest, {count} sockets: frames/s", {**numbers, "per CPU second": per_cpu})
        # Per second of the server's CPU, so that other load on the machine does not matter.
        mine, sockets = per_cpu["toolcards"], f"ingest per CPU second, {count} socket{'s' if count > 1 else ''}"
        report.row(f"{sockets}, of bare json.loads", mine / per_cpu["bare"], at_least=0.5)
        report.row(f"{sockets}, of a stock consumer", mine / per_cpu["stock"], at_least=4)


def measure_growth(report: Report, ours: servers.Server, *, quick: bool) -> None:
    """Compare the cost of early and late deltas of one input.

    Five parts of 2,000 deltas each; the cost must not grow.
    """
    parts: list[list[float]] = [[] for _ in range(5)]
    for turn in range(3 if quick else 7):
        link = load.agent(ours.port, servers.KEY, f"growth-{turn}")
        start_frame = b'{"n":1,"type":"tool.input.started","call_id":"c1","tool":"write_file"}'
        link.sendall(load.frame(start_frame))
        for part, took in enumerate(parts):
            frame_numbers = range(2 + part * 2000, 2 + (part + 1) * 2000)
            frames = b"".join(load.frame(b'{"n":%d,%s' % (number, DELTA)) for number in frame_numbers)
            began = time.perf_counter()
            link.sendall(frames)
            load.acknowledged(link, 1 + (part + 1) * 2000)
            took.append(time.perf_counter() - began)
        link.close()
    numbers = [round(median(took) / 2000 * 1e6, 1) for took in parts]
    report.note("us per delta of one card, by thousands: 0-2, 2-4, 4-6, 6-8, 8-10", numbers)
    report.row("a delta late in a card of 10,000, of an early one", numbers[-1] / numbers[0], at_most=1.5)


def measure_capacity(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Compare frames per second with one and a hundred watchers.

    The watchers are spread over the pages of 20 runs.
    """
    rounds, seconds = (1, 0.8) if quick else (3, 1.5)
    rates: dict[int, list[float]] = {1: [], 100: []}
    for turn in range(rounds):
        for watching in rates:
            label = f"capacity-{watching}-{turn}"
            ours.wait_for_index()
            talking = open_senders(ours, "", 20, label)
            pump(talking, WARM)
            watchers = [open_watcher(ours, person, f"{label}-{number % 20}") for number in range(watching)]
            pump(talking, WARM, watchers)
            cpu = ours.cpu()
            frame_count = pump(talking, seconds, watchers)
            rates[watching].append(frame_count / max(ours.cpu() - cpu, 0.01))
            wait_until_idle(talking)
            for each in (*talking, *watchers):
                each.link.close()
    numbers = {count: round(median(values)) for count, values in rates.items()}
    report.note("capacity by watchers: frames per CPU second", numbers)
    report.row("capacity with 100 watchers, of 1 watcher", numbers[100] / numbers[1], at_least=0.8)
