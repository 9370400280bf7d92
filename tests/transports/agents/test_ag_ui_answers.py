"""Questions over AG-UI against a model: whatever happens in which order, the agent gets one answer, as voted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import gating
from tests.support.ag_ui_agent import FakeAgent, build_run_start, finished, post, requesting
from tests.support.server import Server
from tests.support.voter import Voter

CITIES = ("Rome", "Oslo")
STEPS = st.sampled_from(
    [("vote", 0), ("vote", 1), ("vote", "deny"), ("next", None), ("away", None), ("chat", 0), ("chat", 1)]
)


class Model:
    """What must be true: the first answer counts, and is sent until an agent that is there has it."""

    def __init__(self) -> None:
        self.answer: Any = None  # the entry without its id
        self.is_received = False

    def decide(self, entry: dict[str, Any]) -> None:
        self.answer = self.answer or entry

    def send(self, entries: list[dict[str, Any]], is_away: bool) -> list[dict[str, Any]]:
        """Return what the agent reads in a request with the client's own entries."""
        if entries and not self.is_received:
            self.decide(entries[0])
        if self.is_received or self.answer is None:
            return entries
        self.is_received = not is_away
        return [self.answer]

    @property
    def outcome(self) -> tuple[str, Any]:
        if self.answer is None:
            return "approval-requested", None
        if self.answer["status"] == "cancelled":
            return "output-denied", None
        return ("output-available", self.answer["payload"]) if self.is_received else ("approval-responded", None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, upstream: FakeAgent) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=f"planner={upstream.url}") as running:
        gating.activate(running, {"v": 1, "default": "ask", "rules": []})
        yield running


def vote(server: Server, run: str, choice: Any) -> None:
    """Send a vote from a page that is up to date; a late one is refused."""
    card = gating.calls(server, run)[f"{run}-1:ask"]
    fields = {"rev": str(card["rev"]), "args_sha256": card["approval"]["args_sha256"]}
    fields |= {"decision": "deny"} if choice == "deny" else {"decision": "answer", "answer-0": str(choice)}
    path = f"/approvals/{card['approval']['id']}/vote"
    status, page = Voter(server).post(path, page="/approvals/", **fields)
    assert status in {200, 409, 410, 412, 422}, page[:500]


def request(server: Server, upstream: FakeAgent, run: str, entries: list[dict[str, Any]], is_away: bool) -> Any:
    """Send the client's next request; return the entries that the agent reads."""
    upstream.reset(build_run_start(run), finished(run))
    upstream.status = 503 if is_away else 200
    more = {"resume": [{"interruptId": "ask", **entry} for entry in entries]} if entries else {}
    assert post(server, run, **more)[0] == upstream.status
    received = upstream.requests[0][0].get("resume", [])
    return [{name: value for name, value in entry.items() if name != "interruptId"} for entry in received]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=8))
def test_an_agent_gets_one_answer_and_it_is_the_first(
    server: Server, upstream: FakeAgent, steps: list[tuple[str, Any]]
) -> None:
    run, model = f"m-{uuid.uuid4().hex[:8]}", Model()
    upstream.reset(*requesting(run))
    post(server, run)
    for step, choice in steps:
        if step == "vote":
            denied = {"status": "cancelled"}
            model.decide(denied if choice == "deny" else {"status": "resolved", "payload": {"city": CITIES[choice]}})
            vote(server, run, choice)
        else:
            entries = [{"status": "resolved", "payload": {"city": CITIES[choice]}}] if step == "chat" else []
            expected = model.send(entries, step == "away")
            assert request(server, upstream, run, entries, step == "away") == expected, steps
    (card,) = gating.calls(server, run).values()
    assert (card["state"], card["output"]) == model.outcome, steps
