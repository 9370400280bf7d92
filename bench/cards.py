"""Many cards that change at once, and the page of a long run: what both cost the server."""

import json
import time

from bench import load, servers
from bench.fanout import GROWS, SETTLE, ticking, watcher
from bench.load import Drain, drained
from bench.report import Report

CALLS = 1_000  # of the long run


class Counted(Drain):
    """A watcher that counts the cards it is sent."""

    def __init__(self, link) -> None:
        super().__init__(link)
        self.cards, self._tail = 0, b""

    def read(self) -> bytes:
        got = super().read()
        self.cards += (self._tail + got).count(b"<article ")
        self._tail = got[-8:]  # one byte less than is counted
        return got


def busy(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """One page on which many cards grow ten times a second; looking and drawing may take 30 % of the time at most."""
    spent = {}
    for count in (20, 100, 300):
        run = f"busy-{count}-{time.time_ns() % 10**9}"
        link = load.agent(ours.port, servers.KEY, run)
        begun = [{"type": "tool.input.started", "call_id": f"c{n}", "tool": "write_file"} for n in range(count)]
        link.sendall(load.frame(json.dumps(begun).encode()))
        load.acknowledged(link, count)
        watching = Counted(watcher(ours, person, run).link)
        drained([watching], SETTLE)
        grown = [
            {"type": "tool.input.delta", "call_id": f"c{n}", "delta": "twenty characters.. "} for n in range(count)
        ]
        frames, cards, began = watching.frames, watching.cards, time.perf_counter()
        cpu = ticking(ours, link, [watching], 2 if quick else 5, json.dumps(grown).encode())
        took = time.perf_counter() - began
        frames, cards = watching.frames - frames, watching.cards - cards
        spent[count] = cpu / took
        told = {
            "ms between two frames": round(took / max(frames, 1) * 1000), "cards drawn per second": round(cards / took),
            "us of CPU per card drawn": round(cpu / max(cards, 1) * 1e6), "share of a core": round(cpu / took, 2),
        }  # fmt: skip
        report.note(f"{count} cards that change ten times a second", told)
        link.close()
        watching.link.close()
    report.row("CPU with 300 cards that change, of with 100", spent[300] / spent[100], at_most=2)


def long(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """The page of a run with 1,000 calls: to open it, and to watch one more card grow on it."""
    seconds = 2 if quick else 5
    each: dict[int, float] = {}
    for calls in (0, CALLS):
        run = f"long-{calls}-{time.time_ns() % 10**9}"
        link = load.agent(ours.port, servers.KEY, run)
        _past(link, calls)
        link.sendall(load.frame(b'{"type":"tool.input.started","call_id":"c","tool":"write_file"}'))
        load.acknowledged(link, 2 * calls + 1)
        told = {}
        for turn in ("first", "again"):
            cpu, began = ours.cpu(), time.perf_counter()
            size = len(person.get(f"/runs/{run}/")[1])
            told[f"page, {turn}: ms of CPU, ms"] = _both(ours.cpu() - cpu, time.perf_counter() - began)
        told["page: kB"] = size // 1000
        cpu = ours.cpu()
        watching = Counted(watcher(ours, person, run).link)
        drained([watching], SETTLE)
        told |= {"whole board: ms of CPU": round((ours.cpu() - cpu) * 1000), "whole board: kB": watching.bytes // 1000}
        told["whole board: cards"], before = watching.cards, watching.frames
        each[calls] = ticking(ours, link, [watching], seconds, GROWS) / max(watching.frames - before, 1)
        told["one change: ms of CPU"] = round(each[calls] * 1000, 1)
        report.note(f"a run of {calls} calls and one more", told)
        link.close()
        watching.link.close()
    report.row("CPU of a change on a page of 1,000 calls, of an empty one", each[CALLS] / each[0], at_most=1.5)


def _past(link, calls: int) -> None:
    """Let the run have had so many calls."""
    for start in range(0, calls, 100):
        frames = []
        for number in range(start, start + 100):
            call = f"p{number}"
            given = {"path": f"src/module_{number}.py", "limit": 200}
            frames += [
                {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": given},
                {"type": "tool.output.available", "call_id": call, "output": "line of text\n" * 20},
            ]
        link.sendall(load.frame(json.dumps(frames).encode()))


def _both(cpu: float, took: float) -> list[int]:
    return [round(cpu * 1000), round(took * 1000)]
