"""Two faults of `make chaos` in `make test-thorough`, with a small load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.askers import Gated, Poller, Voter
from tests.chaos.load import Client
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.stage import Machines, Setup
from tests.chaos.streams import NumberedStreamer, SlowKeyedPoster, Streamer
from tests.support.services import find_program

FEW: list[type[Client]] = [Streamer, NumberedStreamer, SlowKeyedPoster, Gated, Poller, Voter]


@pytest.fixture
def machines() -> Iterator[Machines]:
    """PostgreSQL and Redis, ended after the test."""
    value = Machines()
    yield value
    value.remove()


@pytest.mark.thorough
def test_a_killed_server_loses_and_doubles_nothing(machines: Machines) -> None:
    row = SCENARIOS["kill"].play(Setup(), machines, clients=FEW, times=1)
    assert not row.broken, str(row)


@pytest.mark.sweep
@pytest.mark.postgres
@pytest.mark.redis
def test_ended_sessions_of_postgresql_lose_and_double_nothing(machines: Machines) -> None:
    if not find_program("initdb") or not find_program("redis-server"):
        pytest.skip("PostgreSQL or Redis is not installed")
    row = SCENARIOS["pg-sessions"].play(Setup("postgres"), machines, clients=FEW, times=1)
    assert not row.broken, str(row)
