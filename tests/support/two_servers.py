"""Two servers on one database, and a call that both get requests about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.attacked_site import DECIDE, Person
from tests.support.server import Server, until
from tests.support.services import postgres

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

    def break_glass(self, server: int, *, on: bool) -> None:
        command = ["on", "--reason", "a test", "--minutes", "5"] if on else ["off"]
        completed = self.servers[server].manage("breakglass", *command)
        assert completed.returncode == 0, completed.stderr

    def set_active(self, name: str, *, on: bool) -> None:
        """Deactivate or activate the person, as the command line does."""
        code = f"from django.contrib.auth.models import User; p = User.objects.get(username={name!r}); "
        completed = self.servers[1].manage("shell", "-v", "0", "-c", f"{code}p.is_active = {on}; p.save()")
        assert completed.returncode == 0, completed.stderr

    def stop_all(self, server: int, *, on: bool) -> Any:
        return self.people[server].send("POST", "/api/v1/killswitch", {"on": on})


@contextmanager
def serve_twice(folder: Path) -> Iterator[Site]:
    """Run two servers on one PostgreSQL, under `POLICY`."""
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

    def vote(self, server: int, decision: str, person: Person | None = None, **more: str) -> tuple[int, str]:
        form = {"decision": decision, "rev": self.rev, "args_sha256": self.decision["args_sha256"]} | more
        return (person or self.site.people[server]).vote(self.approval, form)

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
    "approve the run": lambda story, server: story.vote(server, "approve", grant="run"),
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
    "waiting": [
        "approve",
        "approve the run",
        "deny",
        "withdraw",
        "look",
        "result",
        "end",
        "stop all",
        "other input",
        "ask d",
    ],
    "approved": ["claim", "withdraw", "look", "result", "end", "stop all", "other input", "ask d", "read d"],
    "allowed": ["claim", "result", "end", "stop all", "other input", "read d"],
    "running": ["claim", "withdraw", "result", "end", "other input"],
}
