"""The load of a scenario: one thread for each client, until each client works again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from tests.chaos.ledger import Ledger
from tests.support.server import Server

FINISH = 25.0  # seconds that clients have to get their last answers
CALM = 2.0  # seconds of load behind a recovery: what is late shows up in them


class Client:
    """One client of the server; subclasses do the `work`."""

    def __init__(self, server: Server, ledger: Ledger, number: int = 1) -> None:
        self.server, self.ledger = server, ledger
        self.kind = type(self).__name__.lower()
        self.tag = f"{self.kind}{number}"
        self.run = f"run-{self.tag}"
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._last = 0.0

    def work(self) -> None:
        """Do what this client does for as long as it `goes_on`."""
        raise NotImplementedError

    def goes_on(self) -> bool:
        """Return whether the load has not ended."""
        return not self.stop.is_set()

    def may_finish(self) -> bool:
        """Return whether there is time to get answers that are due; the load's end begins it."""
        return self.goes_on() or time.monotonic() < self._last

    def succeed(self) -> None:
        """Note that this client got what it wanted."""
        self.ledger.succeed(self.tag)

    def refuse(self, why: object) -> None:
        """Note a refusal, or a connection that broke, and wait a moment."""
        self.ledger.refuse(f"{self.kind}: {why if isinstance(why, str) else _shorten(why)}")
        time.sleep(0.2)

    def end(self) -> None:
        """Send nothing new from now on."""
        self._last = time.monotonic() + FINISH
        self.stop.set()


class Load:
    """Clients at work; `with Load(clients, ledger)` starts them, and its end waits for their last answers."""

    def __init__(self, clients: Iterable[Client], ledger: Ledger) -> None:
        self.clients, self.ledger = list(clients), ledger
        self._threads = [threading.Thread(target=self._work, args=(client,), daemon=True) for client in self.clients]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self.await_all(60.0)
        return self

    def __exit__(self, *error: object) -> None:
        for client in self.clients:
            client.end()
        for thread in self._threads:
            thread.join(2 * FINISH)
        failures = [client.failure for client in self.clients if client.failure]
        if failures:
            raise failures[0]

    def await_all(self, seconds: float) -> None:
        """Wait until each client has succeeded once; raises AssertionError."""
        end, expected = time.monotonic() + seconds, {client.tag for client in self.clients}
        while missing_clients := expected - self.ledger.clients():
            assert time.monotonic() < end, f"these clients never succeeded: {sorted(missing_clients)}"
            time.sleep(0.05)

    def await_recovery(self, seconds: float) -> None:
        """Wait until each client has succeeded since the fault's end, or the time is up."""
        end = time.monotonic() + seconds
        while self.ledger.recovery() is None and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(CALM)

    def _work(self, client: Client) -> None:
        try:
            client.work()
        except BaseException as failure:  # a mistake of the harness itself: the scenario fails with it
            client.failure = failure


def _shorten(error: object) -> str:
    return f"{type(error).__name__} {error}"[:80]
