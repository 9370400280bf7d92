"""Probes: held in every way of connecting, and ended by an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.connecting import start_voter
from tests.support.server import Server
from toolcards.connect import probe as probing


@pytest.mark.slow
@pytest.mark.parametrize("vote", ["approve", "deny"])
@pytest.mark.parametrize("transport", ["hooks", "http", "socket"])
def test_a_probe_is_held_on_every_road(server: Server, transport: str, vote: str) -> None:
    somebody = start_voter(server, vote)
    outcome = probing.probe(server.base, server.key, lambda value: None, agent="a probe", wait=60, transport=transport)
    somebody.join()
    assert outcome == {"approve": "approved", "deny": "denied"}[vote]
    newest = server.get("/api/v1/runs?agent=a%20probe")["runs"][0]["run"]
    (call,) = server.get(f"/api/v1/runs/{newest}/calls")["calls"]
    assert call["state"] == {"approve": "output-available", "deny": "output-denied"}[vote]
    assert call["anomalies"] == []


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("allowing"), default_effect="allow") as running:
        yield running


@pytest.mark.parametrize("vote", ["approve", "deny"])
@pytest.mark.parametrize("transport", ["hooks", "http", "socket"])
def test_without_an_asking_rule_the_probe_requests_approval_itself(allowing: Server, transport: str, vote: str) -> None:
    somebody = start_voter(allowing, vote)
    outcome = probing.probe(allowing.base, allowing.key, lambda value: None, wait=60, transport=transport)
    somebody.join()
    assert outcome == {"approve": "approved", "deny": "denied"}[vote]


@pytest.mark.slow
def test_an_unanswered_probe_fails(server: Server) -> None:
    with pytest.raises(probing.ProbeFailed, match="No one answered"):
        probing.probe(server.base, server.key, lambda value: None, wait=1, transport="http")
