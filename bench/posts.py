"""POSTs of single frames on keep-alive connections, next to applications that only parse, or parse and store them."""

import contextlib
import json
import re
import selectors
import socket
import time
from collections.abc import Callable
from statistics import median

from bench import load, servers
from bench.report import Report

WARM = 0.4
TEXT = (load.WORDS * 30)[:1900]  # a post of about 2 kB
_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
MakeRequest = Callable[[int], bytes]


def build_request(port: int, path: str, body: bytes) -> bytes:
    """Return a POST with the agent key."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {servers.KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Poster:
    """A keep-alive connection that posts one request after the other. `make`: turn number -> request."""

    def __init__(self, port: int, make: MakeRequest) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.make, self.answer_count, self.times = make, 0, []
        self._tail, self._turn, self._sent_at = b"", 0, 0.0

    def fileno(self) -> int:
        return self.link.fileno()

    def post(self) -> None:
        """Send the next request."""
        self._sent_at = time.perf_counter()
        self.link.sendall(self.make(self._turn))
        self._turn += 1

    def read(self) -> bool:
        """Read what has arrived; return whether the answer is complete."""
        data = self.link.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed a connection")
        self._tail += data
        head, separator, body = self._tail.partition(b"\r\n\r\n")
        if not separator or len(body) < int(_LENGTH.search(head)[1]):
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"a post was refused: {self._tail[:600]!r}")
        self._tail = b""
        self.answer_count += 1
        self.times.append(time.perf_counter() - self._sent_at)
        return True


def run_posters(posters: list[Poster], seconds: float) -> int:
    """Keep all posters posting; return the number of answers.

    Returns when every request has its answer.
    """
    selector = selectors.DefaultSelector()
    before, deadline = sum(poster.answer_count for poster in posters), time.perf_counter() + seconds
    for poster in posters:
        selector.register(poster, selectors.EVENT_READ)
        poster.post()
    open_requests = len(posters)
    while open_requests:
        for key, _ in selector.select(30) or _raise_timeout():
            if key.fileobj.read():
                if time.perf_counter() < deadline:
                    key.fileobj.post()
                else:
                    open_requests -= 1
    selector.close()
    return sum(poster.answer_count for poster in posters) - before


def _raise_timeout() -> list:
    raise SystemExit("a post was not answered within 30 seconds")


def measure_rate(server: servers.Server, makers: list[MakeRequest], seconds: float) -> tuple[float, float, float]:
    """Return answers per second, per CPU second, and the median milliseconds."""
    posters = [Poster(server.port, make) for make in makers]
    try:
        run_posters(posters, WARM)
        for poster in posters:
            poster.times.clear()
        cpu, start = server.cpu(), time.perf_counter()
        answers = run_posters(posters, seconds)
        took, cpu = time.perf_counter() - start, server.cpu() - cpu
        times = [seconds for poster in posters for seconds in poster.times]
        return answers / took, answers / max(cpu, 0.01), median(times) * 1000
    finally:
        for poster in posters:
            with contextlib.suppress(OSError):
                poster.link.close()


def measure_ingest(server: servers.Server, count: int, seconds: float, label: str) -> float:
    """Return posted frames per second of the server's CPU."""
    return measure_rate(server, [make_ingest(server.port, f"{label}-{number}") for number in range(count)], seconds)[1]


# ---------------------------------------------------------------- requests


def _build_hook(label: str, turn: int) -> bytes:
    """Return a hook input of Claude Code: before the call in even turns, its result in odd ones.

    Both name the same input, as Claude Code does. With another input, the result would be of another call.
    """
    event, output = ("PreToolUse", {}) if turn % 2 == 0 else ("PostToolUse", {"tool_response": {"stdout": TEXT}})
    hook = {
        "session_id": label, "hook_event_name": event, "tool_name": "Bash", "tool_use_id": f"{label}-{turn // 2}",
        "tool_input": {"command": "ls -la", "description": TEXT},
    }  # fmt: skip
    return json.dumps(hook | output).encode()


def make_ingest(port: int, label: str) -> MakeRequest:
    path = f"/api/v1/ingest?protocol=claude-code&run={label}&agent=bench"
    return lambda turn: build_request(port, path, _build_hook(label, turn))


def _make_hook(port: int, label: str) -> MakeRequest:
    return lambda turn: build_request(port, "/api/v1/hooks/claude-code", _build_hook(label, turn))


def _make_decide(port: int, label: str) -> MakeRequest:
    def make(turn: int) -> bytes:
        question = {"run": label, "call_id": f"{label}-{turn}", "tool": "read_file", "args": {"path": TEXT}}
        return build_request(port, "/api/v1/calls/decide", json.dumps(question).encode())

    return make


def _make_stored(port: int, label: str) -> MakeRequest:
    return lambda turn: build_request(port, f"/?run={label}", _build_hook(label, turn))


def _make_bare(port: int, make: Callable[[int, str], MakeRequest]) -> MakeRequest:
    """Return the same requests for the bare application."""
    make_request = make(port, "bare")

    def make_bare(turn: int) -> bytes:
        head, _, body = make_request(turn).partition(b"\r\n\r\n")
        return b"POST /bare/ HTTP/1.1\r\n" + head.partition(b"\r\n")[2] + b"\r\n\r\n" + body

    return make_bare


KINDS = {"ingest": (make_ingest, 0.4), "Claude Code hooks": (_make_hook, 0.4), "decide": (_make_decide, 0.3)}


Rate = tuple[float, float, float]  # answers per second, per CPU second, and the median milliseconds
Labels = list[str]  # one for each sender


def _alternate(
    senders: dict[str, Callable[[Labels], tuple[servers.Server, list[MakeRequest]]]],
    count: int,
    label: str,
    *,
    quick: bool,
) -> dict[str, Rate]:
    """Measure each server in turns with so many senders; return the medians by name."""
    rounds, seconds = (1, 0.8) if quick else (3, 2.0)
    results: dict[str, list[Rate]] = {name: [] for name in senders}
    for turn in range(rounds):
        for name, make_all in senders.items():
            results[name].append(measure_rate(*make_all([f"{label}-{turn}-{n}" for n in range(count)]), seconds))
    return {name: tuple(map(median, zip(*rates, strict=True))) for name, rates in results.items()}


def measure(report: Report, ours: servers.Server, base: servers.Server, *, quick: bool) -> None:
    """Compare Toolcards with the bare application for each kind of POST.

    With 8 and 64 senders; `ingest` also with an application that only stores, to see what any program would take for
    the same promise.
    """
    with servers.storing() as storing:
        for kind, (make, target) in KINDS.items():
            senders = {
                "toolcards": lambda labels, make=make: (ours, [make(ours.port, label) for label in labels]),
                "bare": lambda labels, make=make: (base, [_make_bare(base.port, make) for _ in labels]),
            }
            if kind == "ingest":
                senders["storing"] = lambda labels: (storing, [_make_stored(storing.port, each) for each in labels])
            for count in (8,) if quick else (8, 64):
                rates = _alternate(senders, count, f"post-{kind[:2]}-{count}", quick=quick)
                _report(report, kind, count, rates, target)


def _report(report: Report, kind: str, count: int, rates: dict[str, Rate], target: float) -> None:
    numbers = {name: [round(rate), round(1e6 / work), round(ms, 2)] for name, (rate, work, ms) in rates.items()}
    report.note(f"{kind}, {count} senders: posts/s, CPU in us a post, p50 in ms", numbers)
    (rate, work, _), (bare_rate, bare_work, _) = rates["toolcards"], rates["bare"]
    report.row(f"{kind} by HTTP per CPU second, {count} senders, of bare", work / bare_work, at_least=target)
    report.row(f"{kind} by HTTP per second, {count} senders, of bare", rate / bare_rate, at_least=target)
    if "storing" in rates:
        stored_work = rates["storing"][1]
        report.row(f"{kind} per CPU second, {count} senders, of only storing", work / stored_work)
        report.row(f"only storing per CPU second, {count} senders, of bare", stored_work / bare_work)
