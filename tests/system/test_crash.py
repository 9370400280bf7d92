"""Pulling the plug: what was acknowledged is in the log, once, and the log adds up."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import threading
from typing import Any

import pytest
from django.test import override_settings
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.support.raw_connection import WITH_KEY, Wire, post
from tests.support.server import PATIENCE, Server, until
from toolcards.models import Event

AGENTS, ENOUGH = 10, 5_000  # agents, and acknowledged frames of all of them before the plug is pulled


def _flood(server: Server, name: str, acked: dict[str, int], stop: threading.Event) -> None:
    """Send numbered frames, fifty to a message, and note how many of them the server has acknowledged."""
    last_sent = acked[name]
    with contextlib.suppress(ConnectionClosed, InvalidHandshake, OSError, EOFError, TimeoutError):  # noqa: SIM117 - the opening may fail too
        with server.socket(protocol="native", run=name, mode="observe") as socket:
            base = last_sent
            while not stop.is_set():
                numbers = range(last_sent + 1, last_sent + 51)
                socket.send(json.dumps([_frame(n) for n in numbers]))
                last_sent += 50
                while last_sent - acked[name] > 1000 and not stop.is_set():
                    message = json.loads(socket.recv(timeout=PATIENCE))
                    acked[name] = base + message["frames"] if message["type"] == "ack" else acked[name]


def _frame(n: int) -> dict[str, Any]:
    call, part = divmod(n - 1, 10)
    if part == 0:
        return {"n": n, "type": "tool.input.started", "call_id": f"c{call}", "tool": "bash"}
    if part == 9:
        return {"n": n, "type": "tool.output.available", "call_id": f"c{call}", "output": n}
    return {"n": n, "type": "tool.input.delta", "call_id": f"c{call}", "delta": f"<{n}>"}


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Any) -> None:
    with Server(tmp_path, grace=60) as server:
        acked = {f"run-{n}": 0 for n in range(AGENTS)}
        for turn in (1, 2):
            stop = threading.Event()
            agents = [threading.Thread(target=_flood, args=(server, name, acked, stop)) for name in acked]
            for agent in agents:
                agent.start()
            until(lambda expected=turn * ENOUGH: sum(acked.values()) >= expected, 3 * PATIENCE)
            server.kill()
            stop.set()
            for agent in agents:
                agent.join()
            server.start()
        _check(server, acked)
        completed = server.manage("replay", "--check")
        assert completed.returncode == 0, completed.stdout + completed.stderr


def _check(server: Server, acked: dict[str, int]) -> None:
    database, column = sqlite3.connect(server.data / "toolcards.sqlite3"), Event._meta.get_field("fact")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for name, count in acked.items():
        result = database.execute(
            "SELECT fact FROM toolcards_event JOIN toolcards_run ON toolcards_run.id = run_id WHERE name = ? ORDER BY"
            " toolcards_event.seq", (name,),
        )  # fmt: skip
        with override_settings(SECRET_KEY=(server.data / "secret_key").read_text().strip()):
            facts = [json.loads(column.open(fact)) for (fact,) in result]
        numbers = [number for fact in facts for number in _numbers(fact)]
        assert len(numbers) == len(set(numbers)), f"{name}: something was applied twice"
        missing_numbers = set(range(1, count + 1)) - set(numbers)
        assert not missing_numbers, f"{name}: acknowledged and lost: {sorted(missing_numbers)[:10]}"
    database.close()


def _numbers(fact: dict[str, Any]) -> list[int]:
    """The numbers of the frames in a fact; pieces that came together may be one."""
    if fact["type"] == "input-delta":
        return [int(number) for number in re.findall(r"<(\d+)>", fact["text"])]
    if fact["type"] == "output-ready":
        return [int(fact["output"])]
    return [int(fact["call_id"][1:]) * 10 + 1] if fact["type"] == "input-started" else []


TEXTS = [f'{{"type": "text.delta", "text": "<{number}>"}}\n' for number in range(40)]
KEYED = "/api/v1/ingest?protocol=native&run=keyed"


def _start_body(server: Server, frames: list[str]) -> Wire:
    """Return a connection that has sent the beginning of a keyed body, once all of it is in the log."""
    head = WITH_KEY + b"Content-Type: application/x-ndjson\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n"
    piece = "".join(frames).encode()
    wire = Wire(server, post(KEYED.encode(), head) + b"%x\r\n%s\r\n" % (len(piece), piece))
    until(lambda: f"<{len(frames) - 1}>" in str(server.request("GET", "/api/v1/runs/keyed/events")[1]))
    return wire


@pytest.mark.slow
def test_a_crash_and_restart_keep_a_question_and_a_keyed_body(tmp_path: Any) -> None:
    with Server(tmp_path, default_effect="ask") as server, contextlib.ExitStack() as open_wires:
        open_wires.enter_context(_start_body(server, TEXTS[:20]))
        question = {"run": "r", "call_id": "c", "tool": "bash", "args": {"command": "ls"}}
        _, decision, _ = server.request("POST", "/api/v1/calls/decide", question)
        assert decision["decision"] == "ask", decision
        server.kill()
        server.start()
        _, again, _ = server.request("POST", "/api/v1/calls/decide", question)
        assert again["approval"]["id"] == decision["approval"]["id"]
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}
        status, body, _ = server.request("POST", KEYED, "".join(TEXTS), **headers)
        assert (status, body.get("accepted")) == (200, 40), body
        events = server.get("/api/v1/runs/keyed/events?limit=200")["events"]
        assert re.findall(r"<\d+>", "".join(event.get("text", "") for event in events)) == [
            f"<{number}>" for number in range(40)
        ]
        assert until(lambda: server.get("/api/v1/approvals?state=waiting")["approvals"])
