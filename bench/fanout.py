"""Frames to many watching pages, and the time from an agent's frame to the page."""

import contextlib
import json
import os
import threading
import time
import urllib.request
from statistics import median

from bench import load, servers
from bench.answers import percentile
from bench.load import Drain, drain
from bench.report import Report

SETTLE = 1.0
EVERY = 0.1  # seconds between two frames
GROWS = b'{"type":"tool.input.delta","call_id":"c","delta":"twenty characters.. "}'


def measure_frames(
    report: Report, ours: servers.Server, base: servers.Server, person: servers.Person, *, quick: bool
) -> None:
    """Compare a frame's cost with a bare queue and Channels' layer.

    All three send ten frames a second, and their CPU time is compared.
    Toolcards' part includes the commit and the rendering before each frame.
    """
    for count in (10, 100) if quick else (10, 100, 1000):
        seconds = 1.5 if quick else 3
        size, mine = _ours(ours, person, count, seconds)
        bare = _base(base, "direct", count, size, seconds)
        stock = _base(base, "layer", count, size, seconds)
        numbers = {"bytes": size, "toolcards": round(mine, 1), "direct": round(bare, 1), "layer": round(stock, 1)}
        report.note(f"fan-out to {count} watchers: us of CPU per frame delivered", numbers)
        if count >= 100:  # with fewer, the cost per tick (queries, rendering) dominates
            least = 0.7 if count == 1000 else 0.35
            report.row(f"fan-out to {count}, of direct queue and writer", bare / mine, at_least=least)
            report.row(
                f"fan-out to {count}, of a layer channel per socket", stock / mine, at_least=8 if count > 100 else 2
            )


def _ours(ours: servers.Server, person: servers.Person, count: int, seconds: float) -> tuple[int, float]:
    """Return bytes per frame, and the server's microseconds per frame and watcher."""
    run = f"fanout-{count}-{time.time_ns() % 10**9}"
    link = load.agent(ours.port, servers.KEY, run)
    link.sendall(load.frame(b'{"type":"tool.input.started","call_id":"c","tool":"write_file"}'))
    load.acknowledged(link, 1)
    watchers = [open_watcher(ours, person, run) for _ in range(count)]
    try:
        drain(watchers, SETTLE)
        before = sum(each.frames for each in watchers), sum(each.bytes for each in watchers)
        spent = send_repeatedly(ours, link, watchers, seconds, GROWS)
        frame_count = sum(each.frames for each in watchers) - before[0]
        size = (sum(each.bytes for each in watchers) - before[1]) // max(frame_count, 1)
        return size, spent / max(frame_count, 1) * 1e6
    finally:
        for each in (link, *(each.link for each in watchers)):
            each.close()


def send_repeatedly(ours: servers.Server, link, watchers: list[Drain], seconds: float, text: bytes) -> float:
    """Send this text ten times a second; return the CPU seconds used."""
    frame = load.frame(text)
    cpu, deadline = ours.cpu(), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        link.sendall(frame)
        drain(watchers, EVERY)
    return ours.cpu() - cpu


def _base(base: servers.Server, kind: str, count: int, size: int, seconds: float) -> float:
    """Return microseconds of CPU per frame and watcher of the baseline's broadcast."""
    watchers = [Drain(load.open_socket(base.port, f"/{kind}/")) for _ in range(count)]
    try:
        drain(watchers, 0.2)
        url = f"http://127.0.0.1:{base.port}/publish/{kind}/?size={size}&seconds={seconds}&every={EVERY}"
        publisher = threading.Thread(
            target=lambda: urllib.request.urlopen(urllib.request.Request(url, method="POST")).read()
        )
        cpu, began = base.cpu(), time.perf_counter()
        publisher.start()
        while publisher.is_alive() and time.perf_counter() - began < seconds + 10:
            drain(watchers, 0.05)
        drain(watchers, 0.3)
        frame_count = sum(each.frames for each in watchers)
        return (base.cpu() - cpu) / max(frame_count, 1) * 1e6
    finally:
        for each in watchers:
            each.link.close()


def open_watcher(server: servers.Server, person: servers.Person, run: str) -> Drain:
    """Return a browser's socket on a run's page."""
    headers = {"Cookie": person.cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    return Drain(load.open_socket(server.port, f"/ws/runs/{run}/", headers))


# ---------------------------------------------------------------- latency


def measure_latency(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Measure the time from an agent's frame to the watcher's socket."""
    run = "latency"
    link = load.agent(ours.port, servers.KEY, run)
    link.sendall(load.frame(b'{"type":"run.started"}'))
    load.acknowledged(link, 1)
    page = open_watcher(ours, person, run)
    drain([page], SETTLE)
    took = [_measure_arrival(link, page, number) for number in range(15 if quick else 60)]
    numbers = {"p50": round(median(took) * 1000, 1), "p99": round(percentile(took, 0.99) * 1000, 1)}
    report.note("event to watcher: ms", numbers)
    report.row("event to watcher, p50", numbers["p50"], at_most=65, unit="ms")
    report.row("event to watcher, p99", numbers["p99"], at_most=125, unit="ms")
    link.close()
    page.link.close()


def _measure_arrival(link, page: Drain, number: int) -> float:
    time.sleep(0.13 + (number % 7) / 100)
    call = f"seen-{number:04d}"
    frame = {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": {"path": "a"}}
    began = time.perf_counter()
    link.sendall(load.frame(json.dumps(frame).encode()))
    text, deadline = b"", began + 5
    while call.encode() not in text and time.perf_counter() < deadline:
        with contextlib.suppress(BlockingIOError):
            text = text[-200:] + page.read()
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


def measure_page(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Measure from an agent's frame to a changed page in Chromium.

    The browser runs on the cores of the load.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        report.note("event to page", "not measured: playwright is not installed")
        return
    browser = os.environ.get("TOOLCARDS_BROWSER") or servers.find_browser()
    if not browser:
        report.note("event to page", "not measured: no browser found")
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
        send_times = {}
        for number in range(15 if quick else 60):
            call = f"drawn-{number:04d}"
            frame = {"type": "tool.input.available", "call_id": call, "tool": "read_file", "input": {"path": "a"}}
            send_times[call] = time.time() * 1000
            link.sendall(load.frame(json.dumps(frame).encode()))
            tab.wait_for_timeout(130 + number % 7 * 10)
        arrival_times = tab.evaluate("() => window.seen")
        chromium.close()
    link.close()
    took = [arrival_times[call] - send_time for call, send_time in send_times.items() if call in arrival_times]
    if len(took) < len(send_times):
        report.note("event to page: calls missing on the page", len(send_times) - len(took))
    numbers = (
        {"p50": round(median(took), 1), "p99": round(percentile(took, 0.99), 1)} if took else {"p50": 9999, "p99": 9999}
    )
    report.note("event to page: ms", numbers)
    report.row("event to page in Chromium, p50", numbers["p50"], at_most=100, unit="ms")
