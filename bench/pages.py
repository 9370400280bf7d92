"""Pages of a large store next to those of an almost empty one: the server's time and CPU for each page."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from urllib.parse import quote

from bench import load, servers
from bench.answers import percentile
from bench.report import Report
from toolcards.client import Toolcards

CALLS, QUICK_CALLS, FEW_CALLS = 100_000, 20_000, 100
CALLS_OF_RUN = 50
CARDS_RUN, STEPS_RUN = 1_000, 2_000  # calls of the two long runs
CALLS_OF_FRAME = 250
GATED_RUNS = 4  # one run of so many is gated, so that the audit trail grows too
VOTES, WAITING = 100, 20
TOOLS = ("Bash", "Read", "Edit", "Grep", "WebFetch", "TodoWrite", "mcp__github__create_issue", "Write")
MISS = "zebra-crossing-77"  # no call has this text


@dataclass(frozen=True)
class Page:
    """A page to measure: its address, and the most that p95 may be, in ms."""

    name: str
    path: str
    at_most: float


def measure(report: Report, *, quick: bool) -> None:
    """Measure each page on a large store and on a small one."""
    calls = QUICK_CALLS if quick else CALLS
    times: dict[str, dict[str, tuple[list[float], float]]] = {}
    for name, count in (("few", FEW_CALLS), ("many", calls)):
        with servers.toolcards() as server:
            began = time.perf_counter()
            fill(server.port, count)
            report.note(f"{name}: {count:,} calls stored in s", round(time.perf_counter() - began, 1))
            person = servers.Person(server.port)
            answer_calls(server.port, person)
            report.note(f"{name}: calls indexed after s", server.wait_for_index())
            times[name] = {page.name: time_page(server, person, page, quick=quick) for page in list_pages(count)}
    for page in list_pages(calls):
        (many, cpu), (few, _) = times["many"][page.name], times["few"][page.name]
        figures = {
            "p50": round(median(many), 1), "p95": round(percentile(many, 0.95), 1), "CPU": round(cpu, 1),
            "p50 of few": round(median(few), 1), "ratio": round(median(many) / median(few), 2),
        }  # fmt: skip
        report.note(f"{page.name}: ms", figures)
        report.row(f"{page.name}, {calls:,} calls, p95", figures["p95"], at_most=page.at_most, unit="ms")


def list_pages(calls: int) -> list[Page]:
    """Return the pages to measure; `calls` are in the store."""
    deep = f"before={calls // 2}"
    return [
        Page("Now", "/", 50),
        Page("Runs", "/runs/", 50),
        Page("Calls", "/calls/", 50),
        Page("Calls of a tool", "/calls/?tool=Grep", 50),
        Page("Calls of a rare state", "/calls/?state=output-denied", 50),
        Page("Calls of a run", "/calls/?run=fill-0", 50),
        Page("Calls without a match", "/calls/?tool=NoSuchTool", 50),
        Page("Calls of no agent", "/calls/?agent=no-such-agent", 50),
        Page("Calls, deep page", f"/calls/?{deep}", 50),
        Page("Approvals", "/approvals/", 50),
        Page("Approvals, history", "/approvals/history/", 50),
        Page("Audit", "/settings/audit/", 50),
        Page("Tools", "/calls/tools/", 100),
        Page("Run of 1,000 calls", "/runs/fill-cards/", 60),
        Page("Steps of 2,000 calls", "/runs/fill-steps/?tab=steps", 100),
        Page("Timeline of 2,000 calls", "/runs/fill-steps/?tab=timeline", 100),
        Page("Search with hits", f"/calls/?q={quote('pytest src/module')}", 100),
        Page("Search without a hit", f"/calls/?q={quote(MISS)}", 100),
    ]


def time_page(server: servers.Server, person: servers.Person, page: Page, *, quick: bool) -> tuple[list[float], float]:
    """Return the ms of each request, and the CPU of one.

    In ms as well; slow pages are requested less often.
    """
    person.get(page.path)  # templates and card caches are warm, as on a server that people use
    times: list[float] = []
    cpu, began = server.cpu(), time.perf_counter()
    while len(times) < (10 if quick else 40) and (len(times) < 3 or time.perf_counter() - began < 10):
        start = time.perf_counter()
        status, _ = person.get(page.path)
        times.append((time.perf_counter() - start) * 1000)
        if status != 200:
            raise SystemExit(f"{page.path} was answered {status}")
    return times, (server.cpu() - cpu) / len(times) * 1000


# ---------------------------------------------------------------- filling a store


def fill(port: int, calls: int, *, partials: int = 0) -> None:
    """Send calls over agent sockets, each with so many preliminary outputs.

    The server's own writer then stores events, calls, runs and audit rows.
    """
    long_runs = [("fill-cards", CARDS_RUN), ("fill-steps", STEPS_RUN)] if calls > CARDS_RUN + STEPS_RUN else []
    long_runs = long_runs or [("fill-cards", 10), ("fill-steps", 10)]
    remaining_calls = calls - sum(count for _, count in long_runs)
    runs = long_runs + [(f"fill-{number}", CALLS_OF_RUN) for number in range(max(1, remaining_calls // CALLS_OF_RUN))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: _fill_run(port, item[0], *item[1], partials), enumerate(runs)))


def _fill_run(port: int, number: int, run: str, calls: int, partials: int) -> None:
    is_gated = number % GATED_RUNS == 0 and run.startswith("fill-") and calls == CALLS_OF_RUN
    link = load.agent(port, servers.KEY, run, "gate" if is_gated else "observe")
    frames = 0
    for start in range(0, calls, CALLS_OF_FRAME):
        batch = [
            frame
            for call in range(start, min(start + CALLS_OF_FRAME, calls))
            for frame in _build_frames(number, call, partials, is_gated=is_gated)
        ]
        link.sendall(load.frame(json.dumps(batch).encode()))
        frames += len(batch)
        load.acknowledged(link, frames)
    link.sendall(load.frame(b'{"type":"run.finished","outcome":"success"}'))
    load.acknowledged(link, frames + 1)
    link.close()


def _build_frames(run: int, call: int, partials: int, *, is_gated: bool) -> list[dict[str, object]]:
    number = run * CALLS_OF_RUN + call
    call_id, tool = f"c{call}", "Read" if is_gated else TOOLS[number % len(TOOLS)]  # policy allows Read at once
    path = f"src/module_{number}.py"
    value: dict[str, object] = {"command": f"pytest {path} -q", "description": "Run the tests of the module."}
    if tool in ("Read", "Edit", "Write"):
        value = {"file_path": path, "old_string": "a = 1\n" * 5, "new_string": "a = 2\n" * 5}
    end: dict[str, object] = {"type": "tool.output.available", "call_id": call_id, "output": "line of text\n" * 20}
    if number % 40 == 0:
        end = {"type": "tool.output.error", "call_id": call_id, "error": {"message": f"No such file: {path}"}}
    parts = [
        {"type": "tool.output.partial", "call_id": call_id, "output": "line of text\n" * part}
        for part in range(partials)
    ]
    return [{"type": "tool.input.available", "call_id": call_id, "tool": tool, "input": value}, *parts, end]


def answer_calls(port: int, person: servers.Person) -> None:
    """Ask for approvals over HTTP, and vote on most of them."""
    cards, token = Toolcards(f"http://127.0.0.1:{port}", servers.KEY), person.token()
    for number in range(VOTES + WAITING):
        run, call_id = f"ask-{number // 10}", f"a{number}"
        answer = cards.decide(run, call_id, "bash", {"command": f"make target-{number}"})
        if not answer.waiting or number < WAITING:
            continue
        call = next(c for c in cards._send("GET", f"/api/v1/runs/{run}/calls")["calls"] if c["call_id"] == call_id)
        fields = {"decision": "deny" if number % 2 else "approve", "rev": str(call["rev"]), "reason": f"Case {number}"}
        fields |= {"args_sha256": call["approval"]["args_sha256"], "csrfmiddlewaretoken": token}
        person._ask("POST", f"/approvals/{call['approval']['id']}/vote", fields)
