"""A line between an agent and a server that can swallow what the server sends, while both ends think that it is up."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class SwallowingLine:
    """One TCP connection through this process."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._server = socket.create_connection((parts.hostname, parts.port))
        self.socket, self._client = socket.socketpair()  # `socket` is the agent's end
        self._swallows = False
        for source, target in ((self._client, self._server), (self._server, self._client)):
            threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def swallow(self) -> None:
        """Pass on nothing more that the server sends."""
        self._swallows = True

    def cut(self) -> None:
        """End both connections."""
        for end in (self._server, self._client):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if source is self._client or not self._swallows:
                    target.sendall(piece)
        self.cut()
