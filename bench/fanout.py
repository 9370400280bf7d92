"""Pages that watch: frames to many sockets, and how long a call takes from the agent to the page."""

import contextlib
import json
import os
import threading
import time
import urllib.request
from statistics import median

from bench import load, servers
from bench.answers import percentile
from bench.load import Drain, drained
from bench.report import Report

SETTLE = 1.0
EVERY = 0.1  # seconds between two frames
GROWS = b'{"type":"tool.input.delta","call_id":"c","delta":"twenty characters.. "}'


def frames(report: Report, ours: servers.Server, base: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """What one frame to one watcher costs the server, next to a bare queue and to Channels' own layer.

    Toolcards sends a page at most ten frames a second, whatever the events; so all are paced like that, and CPU is
    compared. What Toolcards does for a frame before it sends it (commit, look, render) is part of it.
    """
    for count in (10, 100) if quick else (10, 100, 1000):
        seconds = 1.5 if quick else 3
        size, mine = _ours(ours, person, count, seconds)
        bare = _base(base, "direct", count, size, seconds)
        stock = _base(base, "layer", count, size, seconds)
        told = {"bytes": size, "toolcards": round(mine, 1), "direct": round(bare, 1), "layer": round(stock, 1)}
        report.note(f"fan-out to {count} watchers: us of CPU per frame delivered", told)
        if count >= 100:  # below, the tick's own work (looking, rendering) is all there is
            least = 0.7 if count == 1000 else 0.35
            report.row(f"fan-out to {count}, of direct queue and writer", bare / mine, at_least=least)
            report.row(
                f"fan-out to {count}, of a layer channel per socket", stock / mine, at_least=8 if count > 100 else 2
            )


def _ours(ours: servers.Server, person: servers.Person, count: int, seconds: float) -> tuple[int, float]:
    """Return bytes per frame, and microseconds per frame and watcher, all that the server does included."""
    run = f"fanout-{count}-{time.time_ns() % 10**9}"
    link = load.agent(ours.port, servers.KEY, run)
    link.sendall(load.frame(b'{"type":"tool.input.started","call_id":"c","tool":"write_file"}'))
    load.acknowledged(link, 1)
    watchers = [watcher(ours, person, run) for _ in range(count)]
    try:
        drained(watchers, SETTLE)
        before = sum(each.frames for each in watchers), sum(each.bytes for each in watchers)
        spent = ticking(ours, link, watchers, seconds, GROWS)
        got = sum(each.frames for each in watchers) - before[0]
        size = (sum(each.bytes for each in watchers) - before[1]) // max(got, 1)
        return size, spent / max(got, 1) * 1e6
    finally:
        for each in (link, *(each.link for each in watchers)):
            each.close()


def ticking(ours: servers.Server, link, watchers: list[Drain], seconds: float, text: bytes) -> float:
    """Say this ten times a second; return the CPU spent."""
    frame = load.frame(text)
    cpu, until = ours.cpu(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        link.sendall(frame)
        drained(watchers, EVERY)
    return ours.cpu() - cpu


def _base(base: servers.Server, kind: str, count: int, size: int, seconds: float) -> float:
    """Return microseconds of CPU per frame and watcher of the baseline's broadcast."""
    watchers = [Drain(load.opened(base.port, f"/{kind}/")) for _ in range(count)]
    try:
        drained(watchers, 0.2)
        url = f"http://127.0.0.1:{base.port}/publish/{kind}/?size={size}&seconds={seconds}&every={EVERY}"
        asking = threading.Thread(
            target=lambda: urllib.request.urlopen(urllib.request.Request(url, method="POST")).read()
        )
        cpu, began = base.cpu(), time.perf_counter()
        asking.start()
        while asking.is_alive() and time.perf_counter() - began < seconds + 10:
            drained(watchers, 0.05)
        drained(watchers, 0.3)
        got = sum(each.frames for each in watchers)
        return (base.cpu() - cpu) / max(got, 1) * 1e6
    finally:
        for each in watchers:
            each.link.close()


def watcher(server: servers.Server, person: servers.Person, run: str) -> Drain:
    """Return a browser's socket on a run's page."""
    headers = {"Cookie": person.cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    return Drain(load.opened(server.port, f"/ws/runs/{run}/", headers))


# ---------------------------------------------------------------- latency


def latency(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """From an agent's frame to the watcher's socket."""
    run = "latency"
    link = load.agent(ours.port, servers.KEY, run)
    link.sendall(load.frame(b'{"type":"run.started"}'))
    load.acknowledged(link, 1)
    watching = watcher(ours, person, run)
    drained([watching], SETTLE)
    took = [_seen(link, watching, number) for number in range(15 if quick else 60)]
    told = {"p50": round(median(took) * 1000, 1), "p99": round(percentile(took, 0.99) * 1000, 1)}
    report.note("event to watcher: ms", told)
    report.row("event to watcher, p50", told["p50"], at_most=65, unit="ms")
    report.row("event to watcher, p99", told["p99"], at_most=125, unit="ms")
    link.close()
    watching.link.close()


def _seen(link, watching: Drain, number: int) -> float:
    time.sleep(0.13 + (number % 7) / 100)
    call = f"seen-{number:04d}"
    frame = {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": {"path": "a"}}
    began = time.perf_counter()
    link.sendall(load.frame(json.dumps(frame).encode()))
    got, until = b"", began + 5
    while call.encode() not in got and time.perf_counter() < until:
        with contextlib.suppress(BlockingIOError):
            got = got[-200:] + watching.read()
        time.sleep(0.0005)
    return time.perf_counter() - began


WATCH = """() => {
  window.seen = {};
  const look = node => node.querySelectorAll && [node, ...node.querySelectorAll('[data-call-id]')].forEach(card => {
    const call = card.dataset && card.dataset.callId;
    if (call && !window.seen[call]) window.seen[call] = performance.timeOrigin + performance.now();
  });
  new MutationObserver(news => news.forEach(one => one.addedNodes.forEach(look)))
    .observe(document.body, {childList: true, subtree: true});
}"""


def page(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """From an agent's frame to a changed page in a real browser, on the load's cores."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        report.note("event to page", "not measured: there is no playwright")
        return
    browser = os.environ.get("TOOLCARDS_BROWSER") or servers.found_browser()
    if not browser:
        report.note("event to page", "not measured: there is no browser")
        return
    link = load.agent(ours.port, servers.KEY, "page")
    link.sendall(load.frame(b'{"type":"run.started"}'))
    load.acknowledged(link, 1)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        context = chromium.new_context()
        cookies = [{"name": k, "value": v, "url": f"http://127.0.0.1:{ours.port}"} for k, v in person.cookies.items()]
        context.add_cookies(cookies)
        tab = context.new_page()
        tab.goto(f"http://127.0.0.1:{ours.port}/runs/page/")
        tab.wait_for_selector('body[data-live="up"]', timeout=15_000)
        tab.evaluate(WATCH)
        sent = {}
        for number in range(15 if quick else 60):
            call = f"drawn-{number:04d}"
            frame = {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": {"path": "a"}}
            sent[call] = time.time() * 1000
            link.sendall(load.frame(json.dumps(frame).encode()))
            tab.wait_for_timeout(130 + number % 7 * 10)
        seen = tab.evaluate("() => window.seen")
        chromium.close()
    link.close()
    took = [seen[call] - at for call, at in sent.items() if call in seen]
    if len(took) < len(sent):
        report.note("event to page: calls never drawn", len(sent) - len(took))
    told = (
        {"p50": round(median(took), 1), "p99": round(percentile(took, 0.99), 1)} if took else {"p50": 9999, "p99": 9999}
    )
    report.note("event to page: ms", told)
    report.row("event to page in Chromium, p50", told["p50"], at_most=100, unit="ms")
