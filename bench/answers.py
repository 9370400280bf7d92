"""Latency of votes to agents, posts and decisions."""

import json
import re
import socket
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from bench import load, servers
from bench.report import Report
from toolcards.client import Toolcards


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    sorted_values = sorted(values)
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


# ---------------------------------------------------------------- a click, back to the agent


def measure_votes(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """Measure the time from the form's POST to the agent's decision."""
    times = 8 if quick else 25
    token = person.token()
    for name, way in (("socket", _over_socket), ("long poll", _over_poll)):
        took = [way(ours, person, token, f"vote-{name[:4]}-{number}") for number in range(times)]
        numbers = {"p50": round(median(took) * 1000, 1), "p90": round(percentile(took, 0.9) * 1000, 1)}
        report.note(f"vote to agent by {name}: ms", numbers)
        report.row(f"vote to agent by {name}, p50", numbers["p50"], at_most=100, unit="ms")


def _prepare_approval(person: servers.Person, token: str, cards: Toolcards, run: str) -> threading.Thread:
    """Return a thread that approves the only waiting call of the run when started."""
    call = cards._send("GET", f"/api/v1/runs/{run}/calls")["calls"][0]
    approval = call["approval"]
    fields = {"decision": "approve", "rev": str(call["rev"]), "args_sha256": approval["args_sha256"]}
    path = f"/approvals/{approval['id']}/vote"
    return threading.Thread(target=lambda: person._ask("POST", path, fields | {"csrfmiddlewaretoken": token}))


def _over_socket(ours: servers.Server, person: servers.Person, token: str, run: str) -> float:
    cards = Toolcards(f"http://127.0.0.1:{ours.port}", servers.KEY)
    link = load.agent(ours.port, servers.KEY, run, "gate")
    frame = {"n": 1, "type": "tool.input.available", "call_id": "c1", "tool": "bash", "input": {"command": "make x"}}
    link.sendall(load.frame(json.dumps(frame).encode()))
    _read_until(link, b'"decision": "ask"')
    click = _prepare_approval(person, token, cards, run)
    began = time.perf_counter()
    click.start()
    _read_until(link, b'"decision": "allow"')
    took = time.perf_counter() - began
    click.join()
    link.close()
    return took


def _over_poll(ours: servers.Server, person: servers.Person, token: str, run: str) -> float:
    cards = Toolcards(f"http://127.0.0.1:{ours.port}", servers.KEY)
    decision = cards.decide(run, "c1", "bash", {"command": "make x"})
    if not decision.waiting:
        raise SystemExit(f"the call was not held for approval: {decision}")
    arrivals: list[float] = []

    def wait() -> None:
        if cards.wait(decision, seconds=20).allowed:
            arrivals.append(time.perf_counter())

    waiter = threading.Thread(target=wait)
    waiter.start()
    click = _prepare_approval(person, token, cards, run)
    time.sleep(0.1)
    began = time.perf_counter()
    click.start()
    waiter.join()
    click.join()
    return arrivals[0] - began if arrivals else float("inf")


def _read_until(link: socket.socket, text: bytes) -> None:
    link.settimeout(15)
    data = b""
    while text not in data:
        more = link.recv(1 << 16)
        if not more:
            raise ConnectionError(f"the server closed before it sent {text!r}: {data[-500:]!r}")
        data += more


# ---------------------------------------------------------------- calls over HTTP


def measure_posts(report: Report, ours: servers.Server, *, quick: bool) -> None:
    """Measure eight senders, each with one POST at a time.

    A POST has two frames, a call and its result: 2 kB.
    """
    seconds, took, count = (1.5 if quick else 4), [], [0] * 8
    deadline = time.perf_counter() + seconds
    threads = [threading.Thread(target=_post_repeatedly, args=(ours.port, n, deadline, took, count)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = {"posts/s": round(sum(count) / seconds), "p50 ms": round(median(took) * 1000, 1)}
    report.note("8 HTTP senders, pairs of 2 kB", numbers | {"p99 ms": round(percentile(took, 0.99) * 1000, 1)})
    report.row("8 HTTP senders: answered posts per second", numbers["posts/s"], at_least=300, unit="/s")


def _post_repeatedly(port: int, number: int, deadline: float, took: list[float], count: list[int]) -> None:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    text = (load.WORDS * 20)[:900]
    turn = 0
    while time.perf_counter() < deadline:
        turn += 1
        call = f"h{number}-{turn}"
        frames = [
            {"type": "tool.input.available", "call_id": call, "tool": "write_file", "input": {"text": text}},
            {"type": "tool.output.available", "call_id": call, "output": {"text": text}},
        ]
        body = "\n".join(map(json.dumps, frames)).encode()
        head = (
            f"POST /api/v1/ingest?protocol=native&run=post-{number}-{turn // 20} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {servers.KEY}\r\nContent-Type: application/x-ndjson\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        link.sendall(head.encode() + body)
        status = _read_status(link)
        if status != 200:
            raise SystemExit(f"a post was answered {status}")
        took.append(time.perf_counter() - began)
        count[number] += 1
    link.close()


def _read_status(link: socket.socket) -> int:
    data = b""
    while b"\r\n\r\n" not in data:
        data += link.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        body += link.recv(1 << 16)
    return int(head.split()[1])


# ---------------------------------------------------------------- in this process


def measure_decisions(report: Report) -> None:
    """Measure one policy decision, with one rule and with a thousand.

    The thousand rules differ in how many of them name the program, or are patterns.
    """
    questions: tuple[tuple[str, list[dict[str, object]], float], ...] = (
        ("1 rule", [_build_pattern_match(0)], 0.5),
        ("1,000 rules, 20 name the program", [_build_match(number, 20) for number in range(1000)], 1),
        ("1,000 rules, 200 name the program", [_build_match(number, 200) for number in range(1000)], 1),
        # All of these match the command, for other agents: the index cannot exclude any.
        ("1,000 rules, 200 name the command", [_build_match_for_all(number, 200) for number in range(1000)], 1),
        ("1,000 rules, patterns", [_build_pattern_match(number) for number in range(1000)], 10),
    )
    numbers = {}
    for name, tests, most in questions:
        took = _measure_decision(tests)
        numbers[name] = round(took * 1e6, 1)
        report.row(f"policy decision, {name}", took * 1000, at_most=most, unit="ms")
    report.note("policy decision: us", numbers)


def _measure_decision(matches: list[dict[str, object]]) -> float:
    """Return the median seconds that one decision takes under asking rules with these conditions."""
    from toolcards.core.policy.decision import decide
    from toolcards.core.policy.language.document import parse
    from toolcards.core.policy.request import PolicyRequest

    question = PolicyRequest.for_tool("bash", input={"command": "git push origin main --tags"}, agent_path=("bench",))
    rules = [{"id": f"rule-{number}", "effect": "ask", "match": match} for number, match in enumerate(matches)]
    policy = parse({"v": 1, "default": "allow", "rules": rules})
    decide(policy, question)
    times = []
    for _ in range(100):
        began = time.perf_counter()
        decide(policy, question)
        times.append(time.perf_counter() - began)
    return median(times)


def _build_pattern_match(number: int) -> dict[str, object]:
    return {"kind": ["execute"], "args": [{"path": "/command", "op": "re2", "value": f"tool{number} run"}]}


def _build_match(number: int, naming: int) -> dict[str, object]:
    """Return conditions on a subcommand of the program that runs, from rule `naming` on of another program."""
    value = f"git sub{number}" if number < naming else f"prog{number} sub"
    return {"args": [{"path": "/command", "op": "cmd", "value": value}]}


def _build_match_for_all(number: int, naming: int) -> dict[str, object]:
    value = "git push" if number < naming else f"prog{number} sub"
    return {"agent": [f"agent-{number}"], "args": [{"path": "/command", "op": "cmd", "value": value}]}


def raw_rows() -> float:
    """Return rows per second of sqlite3's own executemany.

    A hundred rows at a time, with WAL and synchronous=NORMAL.
    """
    with tempfile.TemporaryDirectory(prefix="toolcards-bench-") as folder:
        base = sqlite3.connect(Path(folder) / "raw.sqlite3", isolation_level=None)
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        base.execute("CREATE TABLE e (id INTEGER PRIMARY KEY, run INT, seq INT, at REAL, o INT, fact TEXT, a INT)")
        base.execute("CREATE UNIQUE INDEX u ON e (run, seq)")
        fact, seq, began = "x" * 160, 0, time.perf_counter()
        while time.perf_counter() - began < 0.7:
            base.execute("BEGIN IMMEDIATE")
            rows = [(1, seq + n, 0.5, 1, fact, 1) for n in range(100)]
            base.executemany("INSERT INTO e (run, seq, at, o, fact, a) VALUES (?, ?, ?, ?, ?, ?)", rows)
            base.execute("COMMIT")
            seq += 100
        took = time.perf_counter() - began
        base.close()
    return seq / took
