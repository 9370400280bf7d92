"""Rings between processes: few messages, from a thread that a broken Redis cannot hold up and that comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from redis import Redis as Client

from tests.support.server import until
from tests.support.services import Redis
from toolcards import doorbell_relay, outages
from toolcards.doorbell_relay import GROUP, MOST, Relay

CHANNEL = f"toolcards__group__{GROUP}"


@pytest.fixture
def a_redis(tmp_path_factory: pytest.TempPathFactory, settings: Any) -> Iterator[Redis]:
    """A Redis that the channel layer of this process uses; it does not run yet."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    layer = {"BACKEND": "toolcards.channel_layers.waiting_redis.WaitingRedisLayer"}
    settings.CHANNEL_LAYERS = {"default": layer | {"CONFIG": {"hosts": [server.url], "prefix": "toolcards"}}}
    yield server
    server.__exit__()


@pytest.fixture
def relays(a_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Relay, Relay, set[int]]]:
    """Two processes' relays that give up soon, and what the second one hears."""
    for name, seconds in (("CONNECT", 1.0), ("ECHO", 0.5), ("IDLE", 0.1), ("PAUSE", 0.05)):
        monkeypatch.setattr(doorbell_relay, name, seconds)
    rung_runs: set[int] = set()
    ours, theirs = Relay(lambda runs: None), Relay(rung_runs.update)
    yield ours, theirs, rung_runs
    ours.close()
    theirs.close()
    outages.reset()


def crosses(relays: tuple[Relay, Relay, set[int]], run: int) -> bool:
    """Ring the run at one relay, repeatedly; return whether the other one received it."""
    ours, theirs, rung_runs = relays
    theirs.start()
    ours.send({run})
    return run in rung_runs


@pytest.mark.redis
def test_a_ring_crosses_over_whatever_became_of_redis_meanwhile(a_redis: Redis, relays: Any) -> None:
    def away() -> bool:
        relays[0].send({1})
        return outages.get_outage(outages.BELL) is not None

    def back(run: int) -> None:
        until(lambda: crosses(relays, run))
        outages.reset()  # how long a part must work until an outage that came back is over, is not the question here

    until(away)  # no connection yet
    a_redis.start()
    until(lambda: crosses(relays, 2) and not outages.get_outage(outages.BELL))
    a_redis.signal(signal.SIGSTOP)
    until(away)
    for run in range(1_000, 21_000):  # as quickly as before, though no process takes them
        relays[0].send({run})
    assert len(relays[0]._pending) <= MOST
    a_redis.signal(signal.SIGCONT)
    back(3)
    a_redis.kill()
    until(away)
    a_redis.start()
    back(4)
    with Client.from_url(a_redis.url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        client.flushall()
        client.client_kill_filter(_type="pubsub")
        back(5)
        assert client.dbsize() == 0  # nothing is kept there


@pytest.mark.redis
def test_many_rings_are_few_messages_and_none_is_lost(a_redis: Redis, relays: Any) -> None:
    a_redis.start()
    until(lambda: crosses(relays, 1))
    with Client.from_url(a_redis.url) as client, client.pubsub() as listening:
        listening.subscribe(CHANNEL)
        for _ in range(50):
            for run in range(2, 400):
                relays[0].send({run, -run})
        relays[0].close()  # sends what is pending
        until(lambda: relays[2] >= {run for run in range(-399, 400) if abs(run) > 1})
        messages = 0
        while listening.get_message(timeout=0.1):
            messages += 1
    assert messages < 1_000  # of 19,900 rings


@pytest.mark.redis
def test_what_others_write_to_redis_is_no_ring_and_no_harm(a_redis: Redis, relays: Any) -> None:
    a_redis.start()
    until(lambda: crosses(relays, 1))
    with Client.from_url(a_redis.url) as client:
        for message in (b"", b"\xc1", b"{}", b"\x91" * 3_000, *map(msgpack.packb, WRONG)):
            client.publish(CHANNEL, message)
        client.publish(CHANNEL, msgpack.packb({"runs": [7, True, "8", None, 9.0, [10]]}))
    until(lambda: 7 in relays[2])
    assert relays[2] == {1, 7} and not outages.get_outage(outages.BELL)


WRONG = [None, 1, [1], "ring", {}, {"runs": None}, {"runs": 3}, {"runs": {"4": 4}}, {"runs": [5] * (MOST + 1)}]
anything = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.binary(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


@pytest.mark.slow
@settings(max_examples=50)
@given(anything | some.fixed_dictionaries({"runs": anything}))
def test_only_whole_numbers_that_may_be_runs_are_rung(message: Any) -> None:
    for run in doorbell_relay._parse_runs(message):
        assert type(run) is int and -(2**63) < run < 2**63 and run in message["runs"]
