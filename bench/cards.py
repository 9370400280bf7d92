"""Server cost of many cards that change at once, and of the page of a long run."""

import json
import time

from bench import load, servers
from bench.fanout import GROWS, SETTLE, open_watcher, send_repeatedly
from bench.load import Drain, drain
from bench.report import Report

CALLS = 1_000  # of the long run


class CardCounter(Drain):
    """A watcher that counts the cards it receives."""

    def __init__(self, link) -> None:
        super().__init__(link)
        self.cards, self._tail = 0, b""

    def read(self) -> bytes:
        piece = super().read()
        self.cards += (self._tail + piece).count(b"<article ")
        self._tail = piece[-8:]  # one byte shorter than the text counted, so nothing counts twice
        return piece


def measure_busy_page(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Measure a page on which many cards grow ten times a second."""
    spent = {}
    for count in (20, 100, 300):
        run = f"busy-{count}-{time.time_ns() % 10**9}"
        link = load.agent(ours.port, servers.KEY, run)
        frames_of_start = [
            {"type": "tool.input.started", "call_id": f"c{n}", "tool": "write_file"} for n in range(count)
        ]
        link.sendall(load.frame(json.dumps(frames_of_start).encode()))
        load.acknowledged(link, count)
        page = CardCounter(open_watcher(ours, person, run).link)
        drain([page], SETTLE)
        deltas = [
            {"type": "tool.input.delta", "call_id": f"c{n}", "delta": "twenty characters.. "} for n in range(count)
        ]
        frames, cards, began = page.frames, page.cards, time.perf_counter()
        cpu = send_repeatedly(ours, link, [page], 2 if quick else 5, json.dumps(deltas).encode())
        took = time.perf_counter() - began
        frames, cards = page.frames - frames, page.cards - cards
        spent[count] = cpu / took
        numbers = {
            "ms between two frames": round(took / max(frames, 1) * 1000), "cards drawn per second": round(cards / took),
            "us of CPU per card drawn": round(cpu / max(cards, 1) * 1e6), "share of a core": round(cpu / took, 2),
        }  # fmt: skip
        report.note(f"{count} cards that change ten times a second", numbers)
        link.close()
        page.link.close()
    report.row("CPU with 300 cards that change, of with 100", spent[300] / spent[100], at_most=2)


def measure_long_run(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Measure the page of a run with 1,000 calls.

    How long it takes to open, and what one more growing card costs.
    """
    seconds = 2 if quick else 5
    each: dict[int, float] = {}
    for calls in (0, CALLS):
        run = f"long-{calls}-{time.time_ns() % 10**9}"
        link = load.agent(ours.port, servers.KEY, run)
        _send_finished_calls(link, calls)
        link.sendall(load.frame(b'{"type":"tool.input.started","call_id":"c","tool":"write_file"}'))
        load.acknowledged(link, 2 * calls + 1)
        ours.wait_for_index()
        numbers = {}
        for turn in ("first", "again"):
            cpu, began = ours.cpu(), time.perf_counter()
            size = len(person.get(f"/runs/{run}/")[1])
            numbers[f"page, {turn}: ms of CPU, ms"] = _to_milliseconds(ours.cpu() - cpu, time.perf_counter() - began)
        numbers["page: kB"] = size // 1000
        cpu = ours.cpu()
        page = CardCounter(open_watcher(ours, person, run).link)
        drain([page], SETTLE)
        numbers |= {"whole board: ms of CPU": round((ours.cpu() - cpu) * 1000), "whole board: kB": page.bytes // 1000}
        numbers["whole board: cards"], before = page.cards, page.frames
        each[calls] = send_repeatedly(ours, link, [page], seconds, GROWS) / max(page.frames - before, 1)
        numbers["one change: ms of CPU"] = round(each[calls] * 1000, 1)
        report.note(f"a run of {calls} calls and one more", numbers)
        link.close()
        page.link.close()
    report.row("CPU of a change on a page of 1,000 calls, of an empty one", each[CALLS] / each[0], at_most=1.5)


def _send_finished_calls(link, calls: int) -> None:
    """Send that many finished calls."""
    for start in range(0, calls, 100):
        frames = []
        for number in range(start, start + 100):
            call = f"p{number}"
            args = {"path": f"src/module_{number}.py", "limit": 200}
            frames += [
                {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": args},
                {"type": "tool.output.available", "call_id": call, "output": "line of text\n" * 20},
            ]
        link.sendall(load.frame(json.dumps(frames).encode()))


def _to_milliseconds(cpu: float, took: float) -> list[int]:
    return [round(cpu * 1000), round(took * 1000)]
