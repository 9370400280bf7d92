"""A proxy in front of PostgreSQL that cuts a connection at its COMMIT, before or after the server receives it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque


class Cutter:
    """Listens at `port`. `cuts` holds what happens to the next commits of events: "before", "after" or ""."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts: deque[str] = deque()
        self.cut_count = 0
        self.is_closed = False  # from the next cut on, the server cannot be reached
        self._clients: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_closed and not self.cuts:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        silent = threading.Event()
        # If the server is down, the proxy is down as well.
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._server)) as server:
            threading.Thread(target=self._answer, args=(server, client, silent), daemon=True).start()
            writes = False
            self._clients.add(client)
            while data := client.recv(1 << 16):
                commits = data.startswith(b"Q") and b"COMMIT" in data[:20]
                cut = self.cuts.popleft() if commits and writes and self.cuts else ""
                self.cut_count += bool(cut)
                if cut and self.is_closed:
                    _shut_down(*self._clients - {client})
                if cut == "before":
                    break
                if cut == "after":
                    silent.set()
                writes = not commits and (writes or b"toolcards_event" in data)
                server.sendall(data)
            _shut_down(client, server)

    @staticmethod
    def _answer(server: socket.socket, client: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while (data := server.recv(1 << 16)) and not silent.is_set():
                client.sendall(data)
        _shut_down(client, server)


def _shut_down(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
