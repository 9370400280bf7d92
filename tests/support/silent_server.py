"""A server that accepts connections and never answers, which a watched agent must not notice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType


class Hole:
    """Accepts every connection. `reads`: also reads what arrives. `on_connection` is called for each one."""

    def __init__(self, *, reads: bool = True, on_connection: Callable[[], object] = lambda: None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._reads, self._on_connection = reads, on_connection
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.swallowed = 0  # connections

    def __enter__(self) -> Hole:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._connections):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self.swallowed += 1
            self._on_connection()
            if self._reads:
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass
