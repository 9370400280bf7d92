"""The faults, by name. Each begins under load, and returns when it is over.

To add one, write a function that takes the stage, with `@scenario(…)`. `needs` says on which setups it can run:
`postgres`, `proxy`, `redis`, `workers`, `disk`, or any.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.chaos.askers import Gated, OftenRefused, Poller, RefusedClient, Voter
from tests.chaos.judging import Row, judge
from tests.chaos.ledger import Ledger
from tests.chaos.load import Client, Load
from tests.chaos.stage import Machines, NotRun, Setup, Stage, explain_skip, staged
from tests.chaos.streams import KeyedPoster, NumberedStreamer, Poster, SlowKeyedPoster, Streamer

PAUSE = 1.0  # seconds of load before each fault
WAIT = 25.0  # seconds that a server has to recover before it counts as broken
CLIENTS: list[type[Client]] = [
    Streamer, Streamer, NumberedStreamer, NumberedStreamer, Poster, KeyedPoster, SlowKeyedPoster, Gated, Gated,
    Poller, Poller, Voter, RefusedClient,
]  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """A fault, what it needs, and what is different for it."""

    name: str
    fault: Callable[[Stage], None]
    """Breaks something, and returns when it is whole again."""
    needs: str = ""
    clients: list[type[Client]] = field(default_factory=lambda: CLIENTS)
    times: int = 1
    """How often the fault comes."""

    @property
    def title(self) -> str:
        """What happens, in a line."""
        return (self.fault.__doc__ or "").strip()

    def play(self, setup: Setup, machines: Machines, **changes: Any) -> Row:
        """Run it on this setup, with changes of its fields; returns its row."""
        if changes:
            return replace(self, **changes).play(setup, machines)
        why = explain_skip(setup, self.needs)
        if why:
            return Row(self.name, str(setup), skip_reason=why)
        try:
            with staged(setup, machines, self.needs) as stage:
                return self._play(stage)
        except (NotRun, pytest.skip.Exception) as reason:  # PostgreSQL or Redis is not here
            return Row(self.name, str(setup), skip_reason=str(reason))

    def _play(self, stage: Stage) -> Row:
        ledger = Ledger()
        with Load([client(stage.server, ledger, n) for n, client in enumerate(self.clients)], ledger) as load:
            for _ in range(self.times):
                time.sleep(PAUSE)
                self.fault(stage)
            ledger.end_fault()
            load.await_recovery(WAIT)
        return judge(self.name, stage, ledger)


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **more: Any) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register the function as the scenario of this name."""

    def register(fault: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SCENARIOS[name] = Scenario(name, fault, **more)
        return fault

    return register


@scenario("refusals", clients=[*CLIENTS, OftenRefused, OftenRefused])
def run_without_fault(stage: Stage) -> None:
    """No fault at all, but requests that are refused."""
    time.sleep(8.0)


@scenario("kill", times=3)
def kill_server(stage: Stage) -> None:
    """The server is killed under load and started again, three times."""
    stage.kill()


@scenario("stop", times=2)
def stop_server(stage: Stage) -> None:
    """The server is stopped by SIGTERM under load and started again, twice."""
    stage.restart()


@scenario("rolling", needs="workers")
def restart_workers(stage: Stage) -> None:
    """One worker after the other is stopped and replaced."""
    stage.replace_workers()


@scenario("pause")
def pause_server(stage: Stage) -> None:
    """All processes of the server stand still for 10 s."""
    stage.pause(10.0)


@scenario("locked")
def lock_database(stage: Stage) -> None:
    """Another program holds a lock on the database for 15 s."""
    with stage.locked():
        time.sleep(15.0)


@scenario("full", needs="disk")
def fill_disk(stage: Stage) -> None:
    """The disk is full for 10 s."""
    with stage.full():
        time.sleep(10.0)


@scenario("pg-sessions", needs="postgres", times=3)
def end_sessions(stage: Stage) -> None:
    """All sessions of PostgreSQL are ended, three times."""
    stage.machines.postgres.end_sessions()


@scenario("pg-immediate", needs="postgres")
def restart_postgres_immediately(stage: Stage) -> None:
    """PostgreSQL is shut down at once and recovers."""
    _restart_postgres(stage, signal.SIGQUIT)


@scenario("pg-fast", needs="postgres")
def restart_postgres(stage: Stage) -> None:
    """PostgreSQL is restarted in order."""
    _restart_postgres(stage, signal.SIGINT)


@scenario("pg-away", needs="postgres")
def remove_postgres(stage: Stage) -> None:
    """PostgreSQL is away for 15 s."""
    _restart_postgres(stage, signal.SIGQUIT, away=15.0)


@scenario("pg-commit", needs="proxy", times=10)
def lose_commit(stage: Stage) -> None:
    """The answer of a COMMIT is lost, ten times."""
    assert stage.proxy is not None
    stage.proxy.cuts.append("after")


@scenario("redis-killed", needs="redis")
def kill_redis(stage: Stage) -> None:
    """Redis is killed, away for 5 s, and started again empty."""
    stage.machines.redis.kill()
    time.sleep(5.0)
    stage.machines.redis.start()


@scenario("redis-paused", needs="redis")
def pause_redis(stage: Stage) -> None:
    """Redis takes connections and answers nothing for 10 s."""
    stage.machines.redis.signal(signal.SIGSTOP)
    time.sleep(10.0)
    stage.machines.redis.signal(signal.SIGCONT)


@scenario("redis-restarted", needs="redis", times=3)
def restart_redis(stage: Stage) -> None:
    """Redis is killed and started again at once, three times."""
    stage.machines.redis.kill()
    stage.machines.redis.start()


@scenario("redis-flushed", needs="redis", times=5)
def flush_redis(stage: Stage) -> None:
    """Redis forgets everything, five times."""
    stage.machines.redis.send("FLUSHALL")


def _restart_postgres(stage: Stage, how: signal.Signals, away: float = 0.0) -> None:
    stage.machines.postgres.stop(how)
    time.sleep(away)
    stage.machines.postgres.start()
