"""Two requests that two servers take at the same moment have the results, and leave the rows, of some order of them.

A third session of PostgreSQL holds the lock that both need, until both wait for it. That is the moment in which each
has read what the other is about to change. The reference model is the same two requests, one after the other. All
writers lock rows in one order: runs, approvals, the end of the audit trail; so none of this ends in a deadlock.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.attacked_site import DECIDE, Person
from tests.support.server import PATIENCE, Server, until
from tests.support.services import postgres

pytestmark = pytest.mark.postgres
PUSH = {"command": "git push"}
POLICY = {
    "v": 1, "default": "ask", "rules": [
        {"id": "push", "effect": "ask", "match": {"tool": ["bash"]}},
        {"id": "look", "effect": "allow", "match": {"tool": ["read"]}},
    ],
}  # fmt: skip
LOCKS = {
    "its run": "SELECT 1 FROM toolcards_run WHERE name = %s FOR UPDATE",
    "its approval": "SELECT 1 FROM toolcards_approval WHERE run_id = (SELECT id FROM toolcards_run WHERE name = %s)"
    " FOR UPDATE",
    # The first request has read and checked everything by then, and writes.
    "its call": "SELECT 1 FROM toolcards_toolcall WHERE run_id = (SELECT id FROM toolcards_run WHERE name = %s)"
    " FOR UPDATE",
}
_TRAIL = "SELECT 1 FROM toolcards_audithead FOR UPDATE"
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
_ROWS = (
    "SELECT state, asked, claimed_at > 0, by_kind, permit FROM toolcards_approval"
    " WHERE run_id = (SELECT id FROM toolcards_run WHERE name = %s) ORDER BY requested_at, asked"
)


class Site:
    """Two servers on one database, and a person who is signed in at both."""

    def __init__(self, servers: list[Server], url: str) -> None:
        self.servers, self.url = servers, url
        self.people = [Person(server, "admin", server.password) for server in servers]

    def count_waiting(self) -> int:
        return int(self.fetch(_WAITING)[0][0])

    def fetch(self, sql: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as session:
            return session.execute(sql, values).fetchall()

    def stop_all(self, server: int, *, on: bool) -> Any:
        return self.people[server].send("POST", "/api/v1/killswitch", {"on": on})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("at-once")
    with postgres(folder) as url:
        with psycopg.connect(url, autocommit=True) as session:  # a deadlock is found before a test has waited for it
            session.execute("ALTER DATABASE cards SET deadlock_timeout = '50ms'")
        data = folder / "data"
        data.mkdir()
        shared = {"database_url": url, "secret_key": "s" * 50, "grace": 600}
        with Server(data, **shared) as one, Server(data, **shared) as other:
            site = Site([one, other], url)
            assert site.people[0].send("PUT", "/api/v1/policy/draft", POLICY)[0] == 200
            status, text = site.people[0].send("POST", "/api/v1/policy/activate", {"expected_active": 1})
            assert status == 200, text
            yield site


class Story:
    """One call of a new run, brought to a stage, and what can be done with it at either server."""

    def __init__(self, site: Site, run: str, stage: str) -> None:
        self.site, self.run = site, run
        self.permit = ""
        tool = "read" if stage == "allowed" else "bash"
        self.decision = self.ask(0, "c", tool)[1]
        if stage != "allowed":
            self.approval = self.decision["approval"]["id"]
            self.rev = self.look_at_calls()[0]["rev"]
        if stage in ("approved", "running"):
            assert self.vote(0, "approve")[0] == 200
            self.decision = self.site.servers[0].get(f"/api/v1/approvals/{self.approval}")
        if stage != "waiting":
            self.permit = self.decision["permit"]["id"]
        if stage == "running":
            assert self.claim(0)[0] == 200

    def look_at_calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self.site.servers[0].get(f"/api/v1/runs/{self.run}/calls")["calls"]
        return calls

    def send(self, server: int, path: str, body: Any = None) -> Any:
        method = "GET" if body is None else "POST"
        return self.site.servers[server].request(method, path, body)[:2]

    def ask(self, server: int, call_id: str, tool: str) -> Any:
        return self.send(server, DECIDE, {"run": self.run, "call_id": call_id, "tool": {"name": tool}, "args": PUSH})

    def vote(self, server: int, decision: str) -> tuple[int, str]:
        form = {"decision": decision, "rev": self.rev, "args_sha256": self.decision["args_sha256"]}
        return self.site.people[server].vote(self.approval, form)

    def claim(self, server: int, permit: str = "") -> Any:
        proof = {"call_id": "c", "args_sha256": self.decision["args_sha256"]}
        return self.send(server, f"/api/v1/permits/{permit or self.permit}/claim", proof)

    def describe(self, answer: Any) -> Any:
        """Return what differs between two results: the status, and the code or the decision."""
        status, body = answer
        if not isinstance(body, dict):
            return status
        error = body.get("error", {})
        return status, error.get("code"), body.get("decision"), body.get("state"), bool(body.get("permit"))

    def describe_end(self) -> tuple[list[Any], list[Any]]:
        """Return the rows and the cards."""
        rows = [(*row[:4], bool(row[4])) for row in self.load_rows()]
        cards = [
            (
                card["state"], card["cause"], (card["approval"] or {}).get("state"),
                (card["decision"] or {}).get("effect"), sorted(anomaly["code"] for anomaly in card["anomalies"]),
            )
            for card in self.look_at_calls()
        ]  # fmt: skip
        return rows, cards

    def load_rows(self) -> list[Any]:
        return self.site.fetch(_ROWS, self.run)

    def check_stopped(self, has_claimed: bool) -> None:
        """Assert that nothing waits or may begin, now and when calls may run again, and that what runs is no denial."""
        until(lambda: not [row for row in self.load_rows() if row[0] in ("pending", "approved")])  # by the sweep
        self.site.stop_all(0, on=False)
        rows, cards = self.load_rows(), self.look_at_calls()
        assert [row[0] for row in rows if row[2]] == ["claimed"] * has_claimed
        ended_cards = [card for card in cards if card["state"].startswith("output-")]
        assert len(ended_cards) == len(cards) - has_claimed, cards
        assert [self.claim(0, row[4])[0] for row in rows if row[4]] == [410] * sum(bool(row[4]) for row in rows)


def send_other_input(story: Story, server: int) -> Any:
    frame = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "rm -rf /"}}
    address = f"/api/v1/ingest?protocol=native&run={story.run}&mode=observe"
    return story.send(server, address, [frame])


REQUESTS: dict[str, Callable[[Story, int], Any]] = {
    "approve": lambda story, server: story.vote(server, "approve"),
    "deny": lambda story, server: story.vote(server, "deny"),
    "claim": lambda story, server: story.claim(server),
    "withdraw": lambda story, server: story.send(server, f"/api/v1/approvals/{story.approval}/withdraw", {}),
    "look": lambda story, server: story.send(server, f"/api/v1/approvals/{story.approval}"),
    "result": lambda story, server: story.send(
        server, "/api/v1/calls/c/result", {"run": story.run, "outcome": "ok", "output": 1}
    ),
    "end": lambda story, server: story.send(server, f"/api/v1/runs/{story.run}/end", {}),
    "stop all": lambda story, server: story.site.stop_all(server, on=True),
    "other input": send_other_input,
    "ask d": lambda story, server: story.ask(server, "d", "bash"),
    "read d": lambda story, server: story.ask(server, "d", "read"),
}  # fmt: skip
STAGES = {
    "waiting": ["approve", "deny", "withdraw", "look", "result", "end", "stop all", "other input", "ask d"],
    "approved": ["claim", "withdraw", "look", "result", "end", "stop all", "other input", "ask d", "read d"],
    "allowed": ["claim", "result", "end", "stop all", "other input", "read d"],
    "running": ["claim", "withdraw", "result", "end", "other input"],
}
_runs = itertools.count()
stories = st.sampled_from(
    [(stage, first, second) for stage, names in STAGES.items() for first, second in itertools.permutations(names, 2)]
)


def run_at_once(story: Story, names: tuple[str, str], lock: str) -> dict[str, Any]:
    """Let both requests wait for the lock, the first one before the second; return their answers."""
    answers: dict[str, Any] = {}

    def act(server: int) -> None:
        answers[names[server]] = REQUESTS[names[server]](story, server)

    threads = [threading.Thread(target=act, args=(server,)) for server in range(2)]
    with psycopg.connect(story.site.url) as holder:
        holder.execute(LOCKS[lock], (story.run,))
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(functools.partial(_is_waiting, story.site, thread, number, time.monotonic() + 1.0))
    for thread in threads:
        thread.join(PATIENCE)
    return answers


def _is_waiting(site: Site, thread: threading.Thread, number: int, deadline: float) -> bool:
    """Return whether the request waits, or needs no lock. Of two, PostgreSQL may have ended one to try again."""
    return not thread.is_alive() or site.count_waiting() >= number or time.monotonic() > deadline


def wait_for_lock(site: Site, thread: threading.Thread) -> None:
    thread.start()
    until(lambda: not thread.is_alive() or site.count_waiting() > 0)


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for stage, names in STAGES.items() for name in names])
def test_a_request_that_waits_for_its_run_holds_no_other_row(site: Site, stage: str, name: str) -> None:
    story = Story(site, f"r{next(_runs)}", stage)
    thread = threading.Thread(target=REQUESTS[name], args=(story, 0))
    try:
        with psycopg.connect(site.url) as holder:
            holder.execute(LOCKS["its run"], (story.run,))
            wait_for_lock(site, thread)
            for lock in ("its approval", "its call"):
                holder.execute(f"{LOCKS[lock]} NOWAIT", (story.run,))
            holder.execute(f"{_TRAIL} NOWAIT")
    finally:
        thread.join(PATIENCE)
        if name == "stop all":
            site.stop_all(0, on=False)


def test_who_needs_several_runs_waits_for_the_first_without_the_others(site: Site) -> None:
    first, second = f"r{next(_runs)}", f"r{next(_runs)}"
    story, _ = Story(site, first, "allowed"), Story(site, second, "waiting")
    assert story.ask(0, "later", "bash")[0] == 200  # the call of the first run has waited for less long
    site.people[0].send("PUT", "/api/v1/policy/draft", POLICY)
    active = json.loads(site.people[0].send("GET", "/api/v1/policy/versions")[1])["active"]
    answer: list[Any] = []

    def apply_policy() -> None:
        body = {"expected_active": active, "apply_to_waiting": True}
        answer.append(site.people[0].send("POST", "/api/v1/policy/activate", body))

    thread = threading.Thread(target=apply_policy)
    with psycopg.connect(site.url) as holder:
        holder.execute(LOCKS["its run"], (first,))
        wait_for_lock(site, thread)
        assert thread.is_alive()
        holder.execute(f"{LOCKS['its run']} NOWAIT", (second,))
    thread.join(PATIENCE)
    assert answer[0][0] == 200


def run_in_turn(site: Site, stage: str, names: tuple[str, str]) -> tuple[Any, Any]:
    story = Story(site, f"r{next(_runs)}", stage)
    answers = {name: story.describe(REQUESTS[name](story, server)) for server, name in enumerate(names)}
    return answers, story.describe_end()


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@example(("allowed", "claim", "stop all"), "its run")
@example(("allowed", "read d", "stop all"), "its run")
@example(("waiting", "ask d", "stop all"), "its run")
@example(("waiting", "approve", "stop all"), "its approval")
@example(("waiting", "approve", "end"), "its approval")
@example(("approved", "claim", "stop all"), "its call")
@example(("allowed", "claim", "stop all"), "its call")
@given(story=stories, lock=st.sampled_from(list(LOCKS)))
def test_two_requests_at_once_are_as_one_after_the_other(site: Site, story: tuple[str, str, str], lock: str) -> None:
    stage, first, second = story
    at_once = Story(site, f"r{next(_runs)}", stage)
    answers = run_at_once(at_once, (first, second), lock)
    described = {name: at_once.describe(answer) for name, answer in answers.items()}
    if "stop all" in (first, second):  # two commits: it is on, then all is stopped
        at_once.check_stopped(described.get("claim", [0])[0] == 200)
        return
    orders = [run_in_turn(site, stage, names) for names in ((first, second), (second, first))]
    assert (described, at_once.describe_end()) in orders


def test_none_of_this_ended_in_a_deadlock(site: Site) -> None:
    assert site.fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


def test_the_trail_and_the_log_are_whole_after_all_of_this(site: Site) -> None:
    for command in (("replay", "--check"), ("audit", "verify")):
        completed = site.servers[0].manage(*command)
        assert completed.returncode == 0, completed.stdout + completed.stderr
