"""A real browser under load: how far pages move, how long an event takes to be painted, and how long pages hang."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from statistics import median

from bench import load, servers
from bench.answers import percentile
from bench.report import Report

STILL_SECONDS, QUICK_STILL_SECONDS = 600.0, 45.0
DEMO_SECONDS = 20.0  # seconds between two starts of the demo
WIDTHS = ((1280, 800), (390, 844))
FLOOD_SECONDS, QUICK_FLOOD_SECONDS = 20.0, 6.0
UPDATES_A_SECOND, OPEN_CALLS, MARKS_A_SECOND = 1_000, 20, 4
STEP_SECONDS = 0.05  # seconds between two sends of the flood
SETTLE_SECONDS = 5.0  # seconds for what came last

# Layout shifts right after the reader's own input do not count. Time zero is the moment at which the page is live.
WATCH_SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver(list => list.getEntries().forEach(entry => {
    if (!entry.hadRecentInput) window.shifts.push([entry.value, ...entry.sources.slice(0, 2).map(each =>
      each.node ? `${each.node.nodeName}.${each.node.className || ''}#${each.node.id || ''}` : '')]);
  })).observe({type: 'layout-shift'});
}"""
READ_SHIFTS = "() => window.shifts"
# When each call was painted: the frame after the one in which its card came. And how long the page did nothing else.
WATCH_PAINTS = """() => {
  window.painted = {}, window.gap = 0;
  const note = call => requestAnimationFrame(() => setTimeout(() => {
    window.painted[call] = performance.timeOrigin + performance.now();
  }));
  new MutationObserver(changes => changes.forEach(change => change.addedNodes.forEach(node => {
    if (node.nodeType !== 1) return;
    const cards = [node, ...node.querySelectorAll('[data-call-id]')];
    cards.map(card => card.dataset.callId).filter(call => call && !(call in window.painted)).forEach(note);
  }))).observe(document.body, {childList: true, subtree: true});
  let last = performance.now();
  const beat = () => {
    const now = performance.now();
    window.gap = Math.max(window.gap, now - last);
    last = now;
    setTimeout(beat, 5);
  };
  beat();
}"""
READ_CARDS = """() => Object.fromEntries([...document.querySelectorAll('article.card')].map(card =>
  [card.dataset.callId, card.dataset.state]))"""


@contextlib.contextmanager
def open_browser():
    """Run Chromium on the cores of the load.

    None if it is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    path = os.environ.get("TOOLCARDS_BROWSER") or servers.find_browser()
    if not path:
        yield None
        return
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield chromium
        finally:
            chromium.close()


def open_tab(chromium, port: int, person: servers.Person, path: str, size: tuple[int, int] = WIDTHS[0]):
    """Return a signed-in page that is live."""
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    base = f"http://127.0.0.1:{port}"
    context.add_cookies([{"name": name, "value": value, "url": base} for name, value in person.cookies.items()])
    tab = context.new_page()
    tab.goto(base + path)
    tab.wait_for_selector("body[data-live=up]", timeout=30_000)
    return tab


def measure(report: Report, *, quick: bool) -> None:
    """Measure how still pages are, and a flood.

    First while the demo plays, then on the page of a run with 1,000 updates a second.
    """
    with open_browser() as chromium:
        if chromium is None:
            report.note("browser", "not measured: Chromium or playwright is not installed")
            return
        with servers.toolcards() as server:
            _measure_stillness(report, server, chromium, QUICK_STILL_SECONDS if quick else STILL_SECONDS)
        with servers.toolcards() as server:
            _measure_flood(report, server, chromium, QUICK_FLOOD_SECONDS if quick else FLOOD_SECONDS)


# ---------------------------------------------------------------- stillness


def _measure_stillness(report: Report, server: servers.Server, chromium, seconds: float) -> None:
    person, stop = servers.Person(server.port), threading.Event()
    steady = threading.Thread(target=_send_steadily, args=(server.port, "steady", stop))
    demo = threading.Thread(target=_play_demo, args=(server.port, stop))
    steady.start()
    demo.start()
    time.sleep(DEMO_SECONDS / 2)
    paths = {
        "Now": "/", "Approvals": "/approvals/", "Runs": "/runs/", "Calls": "/calls/", "Tools": "/calls/tools/",
        "Agents": "/calls/agents/", "Run": "/runs/steady/", "Timeline": "/runs/steady/?tab=timeline",
        "Audit": "/settings/audit/",
    }  # fmt: skip
    tabs = {
        (name, size[0]): open_tab(chromium, server.port, person, path, size)
        for name, path in paths.items()
        for size in WIDTHS
    }
    for tab in tabs.values():
        tab.evaluate(WATCH_SHIFTS)
    time.sleep(seconds)
    shifts = {key: tab.evaluate(READ_SHIFTS) for key, tab in tabs.items()}
    stop.set()
    demo.join()
    steady.join()
    for tab in tabs.values():
        tab.context.close()
    for name in paths:
        sums = {width: sum(value for value, *_ in shifts[name, width]) for width, _ in WIDTHS}
        report.row(f"{name}: layout shifts in {seconds:.0f} s, at most of two widths", max(sums.values()), at_most=0.1)
        largest = sorted((each for width in sums for each in shifts[name, width]), reverse=True)[:3]
        report.note(f"{name}: shifts", {"sums": {k: round(v, 3) for k, v in sums.items()}, "largest": largest})


def _play_demo(port: int, stop: threading.Event) -> None:
    """Start the demo again and again; a player that still waits for a person is ended with its questions."""
    command = [sys.executable, "-m", "toolcards", "demo", "--url", f"http://127.0.0.1:{port}"]
    environment = {**os.environ, "TOOLCARDS_AGENT_KEY": servers.KEY}
    players: list[subprocess.Popen] = []
    while not stop.is_set():
        players.append(subprocess.Popen(
            command, cwd=servers.ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ))  # fmt: skip
        stop.wait(DEMO_SECONDS)
        for player in players[:-2]:
            player.terminate()
            player.wait()
        del players[:-2]
    for player in players:
        player.terminate()
        player.wait()


def _send_steadily(port: int, run: str, stop: threading.Event) -> None:
    """Play a run that calls a tool each second: with partial output, text in between, and failures.

    Each call has a connection of its own, since those of `load` answer no pings.
    """
    number = 0
    while not stop.is_set():
        link = load.agent(port, servers.KEY, run)
        call, end = f"c{number}", {"type": "tool.output.available", "output": "all of it\n" * (number % 12)}
        if number % 7 == 3:
            end = {"type": "tool.output.error", "error": {"message": "exit code 1"}}
        steps = [
            {"type": "text.delta", "text": f"Now I look at file {number}.\n"},
            {"type": "tool.input.available", "call_id": call, "tool": "Read", "input": {"file_path": f"src/{call}.py"}},
            {"type": "tool.output.partial", "call_id": call, "output": "some of it"},
            end | {"call_id": call},
        ]
        for frames, step in enumerate(steps[0 if number % 5 == 0 else 1 :], 1):
            link.sendall(load.frame(json.dumps(step).encode()))
            load.acknowledged(link, frames)
            stop.wait(0.3)
        link.close()
        number += 1


# ---------------------------------------------------------------- a flood


def _measure_flood(report: Report, server: servers.Server, chromium, seconds: float) -> None:
    person = servers.Person(server.port)
    link = load.agent(server.port, servers.KEY, "flood")
    calls = [f"open-{number}" for number in range(OPEN_CALLS)]
    _send(link, [_begin(call) for call in calls])
    load.acknowledged(link, len(calls))
    tab = open_tab(chromium, server.port, person, "/runs/flood/")
    tab.evaluate(WATCH_PAINTS)
    send_times, frames = _send_flood(link, calls, seconds, len(calls))
    ends = [*calls, *send_times]
    _send(link, [{"type": "tool.output.available", "call_id": call, "output": "done"} for call in ends])
    load.acknowledged(link, frames + len(ends))
    tab.wait_for_timeout(SETTLE_SECONDS * 1000)
    paint_times, gap, states_on_page = (
        tab.evaluate("() => window.painted"),
        tab.evaluate("() => window.gap"),
        tab.evaluate(READ_CARDS),
    )
    tab.context.close()
    link.close()
    took = [paint_times[call] - send_time for call, send_time in send_times.items() if call in paint_times]
    numbers = {
        "p50": round(median(took), 1), "p95": round(percentile(took, 0.95), 1), "most": round(max(took), 1),
        "calls": len(send_times), "updates a second": round(frames / seconds),
    }  # fmt: skip
    report.note("event to paint: ms", numbers)
    report.row("event to paint, 1,000 updates a second, p95", numbers["p95"], at_most=250, unit="ms")
    report.row("the same: longest time in which the page hangs", gap, at_most=200, unit="ms")
    report.row("the same: calls that were never painted", len(send_times) - len(took), at_most=0, unit="")
    states = {call["call_id"]: call["state"] for call in _list_calls(server.port, "flood")}
    wrong = [call for call, state in states_on_page.items() if states.get(call) != state]
    report.row("the same: cards that are wrong at the end", len(wrong), at_most=0, unit="")


def _send_flood(link, calls: list[str], seconds: float, frames: int) -> tuple[dict[str, float], int]:
    """Return when each marked call was sent, in ms of the epoch, and the frames sent so far."""
    send_times: dict[str, float] = {}
    began, step = time.monotonic(), 0
    updates = round(UPDATES_A_SECOND * STEP_SECONDS)
    while (seconds_so_far := time.monotonic() - began) < seconds:
        batch = [
            {
                "type": "tool.output.partial",
                "call_id": calls[(step * updates + n) % len(calls)],
                "output": f"line {step}-{n}",
            }
            for n in range(updates)
        ]
        if len(send_times) < seconds_so_far * MARKS_A_SECOND:
            call = f"mark-{len(send_times):04d}"
            batch.append(_begin(call))
            send_times[call] = time.time() * 1000
        _send(link, batch)
        frames += len(batch)
        step += 1
        time.sleep(max(0.0, began + step * STEP_SECONDS - time.monotonic()))
    return send_times, frames


def _begin(call: str) -> dict[str, object]:
    return {"type": "tool.input.available", "call_id": call, "tool": "Bash", "input": {"command": f"make {call}"}}


def _send(link, frames: list[dict[str, object]]) -> None:
    link.sendall(b"".join(load.frame(json.dumps(frame).encode()) for frame in frames))


def _list_calls(port: int, run: str) -> list[dict]:
    calls, cursor = [], ""
    while True:
        url = f"http://127.0.0.1:{port}/api/v1/runs/{run}/calls?limit=200&cursor={cursor}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {servers.KEY}"})
        with urllib.request.urlopen(request) as answer:
            page = json.load(answer)
        calls += page["calls"]
        if not (cursor := page["next"]):
            return calls
