"""PostgreSQL goes away and comes back, and so does everything here: nothing restarts, nothing is lost or doubled."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from tests.support.commit_cutter import Cutter
from tests.support.server import KEY, PATIENCE, Server, until
from tests.support.services import Postgres, postgres_server
from tests.support.voter import Voter

pytestmark = pytest.mark.postgres
COMMAND = {"command": "git push"}
PAGES = ("/", "/approvals/", "/runs/")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("connections")) as running:
        yield running


@pytest.fixture(scope="module")
def cutter(postgres: Postgres) -> Iterator[Cutter]:
    cutter = Cutter(postgres.port)
    yield cutter
    cutter.close()


@pytest.fixture(scope="module")
def server(postgres: Postgres, cutter: Cutter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of this module: each begins where the faults of the ones before have left it."""
    url = postgres.url.replace(str(postgres.port), str(cutter.port))
    with Server(tmp_path_factory.mktemp("server"), database_url=url) as running:
        yield running


@pytest.fixture(scope="module")
def voter(server: Server) -> Voter:
    return Voter(server)


@pytest.fixture(autouse=True)
def nothing_is_cut(cutter: Cutter) -> Iterator[None]:
    """A test that failed leaves no cuts to the next one."""
    yield
    cutter.cuts.clear()
    cutter.is_closed = False


def restart(how: signal.Signals) -> Callable[[Postgres], None]:
    def act(postgres: Postgres) -> None:
        postgres.stop(how)
        postgres.start()

    return act


FAULTS = [
    pytest.param(Postgres.end_sessions, id="sessions-ended"),
    pytest.param(restart(signal.SIGINT), id="restart"),
    pytest.param(restart(signal.SIGQUIT), id="immediate-restart"),
]


def ask(server: Server, run: str, call_id: str) -> tuple[int, Any]:
    body = {"run": run, "call_id": call_id, "tool": "bash", "args": COMMAND}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    return status, decision


def hook(server: Server, call_id: str) -> tuple[int, Any]:
    fields = {"session_id": "cc", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": call_id}
    fields |= {"tool_input": {"file_path": "/tmp/x"}, "cwd": "/tmp", "transcript_path": "/tmp/t"}
    status, answer, _ = server.request("POST", "/api/v1/hooks/claude-code", fields)
    return status, answer


def log_of(server: Server) -> str:
    return (server.data / "server.log").read_text()


class Events:
    """An event stream that is read in a thread: the ids of the calls that it names."""

    def __init__(self, server: Server, run: str) -> None:
        self.call_ids: set[str] = set()
        self._connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=2 * PATIENCE)
        headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}
        self._connection.request("GET", f"/api/v1/runs/{run}/events", headers=headers)
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._answer:
            self.call_ids.update(re.findall(r'"call_id":"(\w+)"', line.decode()))


@pytest.mark.parametrize("fault", FAULTS)
def test_everything_works_again_after(
    fault: Callable[[Postgres], None], server: Server, postgres: Postgres, voter: Voter, request: Any
) -> None:
    run = request.node.callspec.id
    decision = ask(server, run, "held")[1]["approval"]["id"]
    events, value = Events(server, run), []

    def poll() -> None:
        value.append(server.request("GET", f"/api/v1/approvals/{decision}?wait=60")[:2])

    waiting = threading.Thread(target=poll)
    waiting.start()
    with server.socket(protocol="native", run=f"{run}-socket", mode="gate") as agent:
        frame = {"type": "tool.input.available", "call_id": "s1", "tool": "bash", "input": COMMAND, "n": 1}
        agent.send(json.dumps(frame))
        until(lambda: json.loads(agent.recv(PATIENCE)).get("decision") == "ask")
        fault(postgres)
        # All of these ran on threads that had a connection before; none is asked twice.
        for path in PAGES:
            assert voter.get(path)
        assert ask(server, run, "after")[0] == 200
        # What was found before counts until readiness is looked at again, each second.
        until(lambda: server.request("GET", "/readyz", key=None)[0] == 200)
        assert server.get("/api/v1/runs")["runs"]
        assert server.get(f"/api/v1/runs/{run}/events")["events"]
        status, result = hook(server, run)
        assert (status, result["hookSpecificOutput"]["permissionDecision"]) == (200, "allow")
        voter.vote(f"{run}-socket", "approve")
        assert until(lambda: json.loads(agent.recv(PATIENCE)).get("decision") == "allow")
    voter.vote(run, "approve")
    waiting.join(2 * PATIENCE)
    assert [(status, result["decision"]) for status, result in value] == [(200, "allow")]
    until(lambda: "after" in events.call_ids)
    assert "Traceback" not in log_of(server)


def test_while_it_is_away_everything_says_so_and_the_log_says_it_once(
    server: Server, postgres: Postgres, voter: Voter
) -> None:
    ask(server, "away", "before")
    before = len(log_of(server))
    postgres.stop()
    try:
        body = {"run": "away", "call_id": "c", "tool": "bash", "args": COMMAND}
        ways = [("GET", "/api/v1/runs", None), ("GET", "/api/v1/runs/away/events", None)]
        with ThreadPoolExecutor() as pool:  # each is tried for some seconds
            requests = [pool.submit(server.request, *way) for way in [*ways, ("POST", "/api/v1/calls/decide", body)]]
            hooked, page = pool.submit(hook, server, "away"), pool.submit(voter.read_refusal, "/approvals/")
        for request in requests:
            status, result, headers = request.result()
            assert (status, result["error"]["code"]) == (503, "unavailable")
            assert int({name.lower(): value for name, value in headers.items()}["retry-after"])
        status, result = hooked.result()
        assert (status, result["hookSpecificOutput"]["permissionDecision"]) == (200, "deny")
        assert page.result()[0] == 503
        assert "cannot reach its database" in page.result()[1]
    finally:
        postgres.start()
    assert ask(server, "away", "after")[0] == 200
    assert voter.get("/approvals/")
    result = log_of(server)[before:]
    assert "Traceback" not in result
    lines = [line for line in result.splitlines() if " fails; trying again" in line]
    assert 1 <= len(lines) == len({re.sub(r".*\] (\w+) fails.*", r"\1", line) for line in lines}) <= 4, lines
    assert len(result.splitlines()) <= 2 * len(lines), result


def is_short(story: list[str]) -> bool:
    """Return whether no commit is cut before it arrives three times in a row.

    Each time takes up to two seconds on a busy machine, and the server retries a write for five.
    """
    return "before before before" not in " ".join(story)


cuts = st.lists(st.sampled_from(["", "before", "after"]), min_size=1, max_size=5).filter(is_short)
_runs = iter(range(10**9))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=cuts)
def test_frames_are_written_once_wherever_a_commit_is_cut(server: Server, cutter: Cutter, story: list[str]) -> None:
    """One commit each: the connection ends before PostgreSQL has the COMMIT, or after it, or not at all."""
    run, texts = f"cut-{next(_runs)}", [f"[{number}]" for number in range(len(story) + 1)]
    with server.socket(protocol="native", run=run, mode="observe") as agent:
        for number, text in enumerate(texts, 1):
            agent.send(json.dumps({"type": "text.delta", "text": text}))
            until(lambda number=number: json.loads(agent.recv(PATIENCE)).get("frames") == number)  # type: ignore[misc]
            if number == 1:  # the writes before the story have ended
                cutter.cuts.extend(story)
    assert not cutter.cuts
    events = server.get(f"/api/v1/runs/{run}/events?limit=200")["events"]
    assert [event["text"] for event in events if "text" in event] == texts


def test_a_decision_a_vote_and_a_claim_survive_lost_answers(server: Server, cutter: Cutter, voter: Voter) -> None:
    completed = cutter.cut_count
    cutter.cuts.append("after")
    status, decision = ask(server, "lost", "c1")
    assert (status, decision["decision"]) == (200, "ask")
    cutter.cuts.append("after")
    voter.vote("lost", "approve")
    allowed = server.get(f"/api/v1/approvals/{decision['approval']['id']}?wait=60")
    assert allowed["decision"] == "allow"
    claim = {"call_id": "c1", "args_sha256": allowed["args_sha256"]}
    cutter.cuts.append("after")
    status, answer, _ = server.request("POST", f"/api/v1/permits/{allowed['permit']['id']}/claim", claim)
    assert status == 200, answer
    assert cutter.cut_count == completed + 3
    assert len(server.get("/api/v1/runs/lost/calls")["calls"]) == 1
    assert server.manage("replay", "--check").returncode == 0


def test_frames_of_an_unknown_commit_are_there_once_when_their_sender_returns(server: Server, cutter: Cutter) -> None:
    """PostgreSQL commits, its answer is lost, and then it cannot be asked for longer than a request waits."""
    frames = [json.dumps({"type": "text.delta", "text": f"[{n}]", "n": n}) for n in (1, 2)]
    cutter.is_closed = True
    cutter.cuts.append("after")
    try:
        with server.socket(protocol="native", run="fate", mode="observe") as agent:
            agent.send(frames[0])
            assert json.loads(agent.recv(PATIENCE))["type"] == "error"  # and no ack
            with pytest.raises(ConnectionClosed):
                agent.recv(PATIENCE)
    finally:
        cutter.is_closed = False
    with server.socket(protocol="native", run="fate", mode="observe") as agent:
        for frame in frames:
            agent.send(frame)
        until(lambda: json.loads(agent.recv(PATIENCE)).get("frames") == 2)
    events = server.get("/api/v1/runs/fate/events")["events"]
    assert [event["text"] for event in events if "text" in event] == ["[1]", "[2]"]
