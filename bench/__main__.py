"""`python -m bench [--quick] [--only NAME …]`: measure, print a table, write bench/results.json."""

import argparse
import contextlib
import os

from bench import answers, attention, browser, cards, fanout, idle, ingest, pages, posts, servers, simulation, stores
from bench.report import Report

SECTIONS = {
    "ingest": lambda r, s: ingest.measure(r, s.ours, s.base, quick=s.quick),
    "stored": lambda r, s: ingest.measure_stored(r, s.ours, quick=s.quick),
    "growth": lambda r, s: ingest.measure_growth(r, s.ours, quick=s.quick),
    "fanout": lambda r, s: fanout.measure_frames(r, s.ours, s.base, s.person, quick=s.quick),
    "cards": lambda r, s: cards.measure_busy_page(r, s.ours, s.person, quick=s.quick),
    "long": lambda r, s: cards.measure_long_run(r, s.ours, s.person, quick=s.quick),
    "latency": lambda r, s: fanout.measure_latency(r, s.ours, s.person, quick=s.quick),
    "page": lambda r, s: fanout.measure_page(r, s.ours, s.person, quick=s.quick),
    "ux": lambda r, s: browser.measure(r, quick=s.quick),
    "pages": lambda r, s: pages.measure(r, quick=s.quick),
    "large": lambda r, s: stores.measure_large_store(r, quick=s.quick),
    "postgresql": lambda r, s: stores.measure_postgresql(r, s.ours, quick=s.quick),
    "votes": lambda r, s: answers.measure_votes(r, s.ours, s.person, quick=s.quick),
    "http": lambda r, s: answers.measure_posts(r, s.ours, quick=s.quick),
    "posts": lambda r, s: posts.measure(r, s.ours, s.base, quick=s.quick),
    "policy": lambda r, s: answers.measure_decisions(r),
    "simulation": lambda r, s: simulation.measure(r, quick=s.quick),
    "attention": lambda r, s: attention.measure(r, quick=s.quick),
    "idle": lambda r, s: idle.measure(r, quick=s.quick),
    "capacity": lambda r, s: ingest.measure_capacity(r, s.ours, s.person, quick=s.quick),
}


class Setting:
    """The servers, each started on first use."""

    def __init__(self, stack: contextlib.ExitStack, *, quick: bool) -> None:
        self.stack, self.quick = stack, quick
        self._had: dict[str, object] = {}

    def wait_for_index(self) -> None:
        """Wait until our server has indexed what earlier sections sent."""
        if "ours" in self._had:
            self.ours.wait_for_index()

    @property
    def base(self) -> servers.Server:
        return self._start_once("base", lambda: self.stack.enter_context(servers.baseline()))

    @property
    def ours(self) -> servers.Server:
        return self._start_once("ours", lambda: self.stack.enter_context(servers.toolcards()))

    @property
    def person(self) -> servers.Person:
        return self._start_once("person", lambda: servers.Person(self.ours.port))

    def _start_once(self, name, make):
        if name not in self._had:
            self._had[name] = make()
        return self._had[name]


def main() -> None:
    """Run the selected sections and write the report."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=", ".join(SECTIONS))
    options = parser.parse_args()
    if servers.LOAD_CORES:
        os.sched_setaffinity(0, servers.LOAD_CORES)
    report = Report()
    with contextlib.ExitStack() as stack:
        setting = Setting(stack, quick=options.quick)
        for name in options.only or SECTIONS:
            print(f"{name}", flush=True)
            setting.wait_for_index()
            SECTIONS[name](report, setting)
    report.save()


if __name__ == "__main__":
    main()
