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
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# ---------------------------------------------------------------- a click, back to the agent


def votes(report: Report, ours: servers.Server, person: servers.Person, *, quick: bool) -> None:
    """From the moment the form is posted to the moment the agent knows."""
    times = 8 if quick else 25
    token = person.token()
    for name, way in (("socket", _over_socket), ("long poll", _over_poll)):
        took = [way(ours, person, token, f"vote-{name[:4]}-{number}") for number in range(times)]
        told = {"p50": round(median(took) * 1000, 1), "p90": round(percentile(took, 0.9) * 1000, 1)}
        report.note(f"vote to agent by {name}: ms", told)
        report.row(f"vote to agent by {name}, p50", told["p50"], at_most=100, unit="ms")


def _post(person: servers.Person, token: str, cards: Toolcards, run: str) -> threading.Thread:
    """Return a thread that approves the only waiting call of the run."""
    call = cards._ask("GET", f"/api/v1/runs/{run}/calls")["calls"][0]
    approval = call["approval"]
    fields = {"decision": "approve", "rev": str(call["rev"]), "args_sha256": approval["args_sha256"]}
    path = f"/approvals/{approval['id']}/vote"
    return threading.Thread(target=lambda: person._ask("POST", path, fields | {"csrfmiddlewaretoken": token}))


def _over_socket(ours: servers.Server, person: servers.Person, token: str, run: str) -> float:
    cards = Toolcards(f"http://127.0.0.1:{ours.port}", servers.KEY)
    link = load.agent(ours.port, servers.KEY, run, "gate")
    frame = {"n": 1, "type": "tool.input.available", "call_id": "c1", "tool": "bash", "input": {"command": "make x"}}
    link.sendall(load.frame(json.dumps(frame).encode()))
    _until(link, b'"decision": "ask"')
    clicking = _post(person, token, cards, run)
    began = time.perf_counter()
    clicking.start()
    _until(link, b'"decision": "allow"')
    took = time.perf_counter() - began
    clicking.join()
    link.close()
    return took


def _over_poll(ours: servers.Server, person: servers.Person, token: str, run: str) -> float:
    cards = Toolcards(f"http://127.0.0.1:{ours.port}", servers.KEY)
    asked = cards.decide(run, "c1", "bash", {"command": "make x"})
    if not asked.waiting:
        raise SystemExit(f"nobody was asked: {asked}")
    told: list[float] = []

    def wait() -> None:
        if cards.wait(asked, seconds=20).allowed:
            told.append(time.perf_counter())

    waiting = threading.Thread(target=wait)
    waiting.start()
    clicking = _post(person, token, cards, run)
    time.sleep(0.1)
    began = time.perf_counter()
    clicking.start()
    waiting.join()
    clicking.join()
    return told[0] - began if told else float("inf")


def _until(link: socket.socket, wanted: bytes) -> None:
    link.settimeout(15)
    got = b""
    while wanted not in got:
        more = link.recv(1 << 16)
        if not more:
            raise ConnectionError(f"the server closed before it said {wanted!r}: {got[-500:]!r}")
        got += more


# ---------------------------------------------------------------- calls over HTTP


def posts(report: Report, ours: servers.Server, *, quick: bool) -> None:
    """Eight senders, each posting pairs of frames (a call and its result, 2 kB) one after another."""
    seconds, took, count = (1.5 if quick else 4), [], [0] * 8
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=_posting, args=(ours.port, n, until, took, count)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = {"posts/s": round(sum(count) / seconds), "p50 ms": round(median(took) * 1000, 1)}
    report.note("8 HTTP senders, pairs of 2 kB", told | {"p99 ms": round(percentile(took, 0.99) * 1000, 1)})
    report.row("8 HTTP senders: answered posts per second", told["posts/s"], at_least=300, unit="/s")


def _posting(port: int, number: int, until: float, took: list[float], count: list[int]) -> None:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    text = (load.WORDS * 20)[:900]
    turn = 0
    while time.perf_counter() < until:
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
        status = _answered(link)
        if status != 200:
            raise SystemExit(f"a post was answered {status}")
        took.append(time.perf_counter() - began)
        count[number] += 1
    link.close()


def _answered(link: socket.socket) -> int:
    got = b""
    while b"\r\n\r\n" not in got:
        got += link.recv(1 << 16)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        body += link.recv(1 << 16)
    return int(head.split()[1])


# ---------------------------------------------------------------- in this process


def decisions(report: Report) -> None:
    """One policy decision: with one rule, with a thousand by how many name the program, with a thousand patterns."""
    measured: tuple[tuple[str, list[dict[str, object]], float], ...] = (
        ("1 rule", [_pattern(0)], 0.5),
        ("1,000 rules, 20 name the program", [_naming(number, 20) for number in range(1000)], 1),
        ("1,000 rules, 200 name the program", [_naming(number, 200) for number in range(1000)], 1),
        # All of these match, by other agents: the index cannot leave one of them out.
        ("1,000 rules, 200 name the command", [_naming_all(number, 200) for number in range(1000)], 1),
        ("1,000 rules, patterns", [_pattern(number) for number in range(1000)], 10),
    )
    told = {}
    for name, tests, most in measured:
        took = _deciding(tests)
        told[name] = round(took * 1e6, 1)
        report.row(f"policy decision, {name}", took * 1000, at_most=most, unit="ms")
    report.note("policy decision: us", told)


def _deciding(matches: list[dict[str, object]]) -> float:
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


def _pattern(number: int) -> dict[str, object]:
    return {"kind": ["execute"], "args": [{"path": "/command", "op": "re2", "value": f"tool{number} run"}]}


def _naming(number: int, naming: int) -> dict[str, object]:
    """Return what names a subcommand of the program that runs, in the first `naming` rules; else another program."""
    value = f"git sub{number}" if number < naming else f"prog{number} sub"
    return {"args": [{"path": "/command", "op": "cmd", "value": value}]}


def _naming_all(number: int, naming: int) -> dict[str, object]:
    value = "git push" if number < naming else f"prog{number} sub"
    return {"agent": [f"agent-{number}"], "args": [{"path": "/command", "op": "cmd", "value": value}]}


def raw_rows() -> float:
    """Return rows per second of sqlite3's own executemany, a hundred at a time, WAL and synchronous=NORMAL."""
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
