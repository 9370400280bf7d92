"""A TCP proxy in front of a server that cuts or delays single HTTP requests and answers at any byte."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Plan = Callable[[str], "Cut | None"]  # gets the request line; None passes the request and its answer on
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cut:
    """How many bytes of a request and of its answer pass; then both connections end. None passes everything."""

    request: int | None = None
    answer: int | None = None
    delay: float = 0.0  # seconds before the answer


@dataclass
class CuttingProxy:
    """The proxy: `plan` decides about each request."""

    upstream: str
    plan: Plan = lambda line: None
    lines: list[str] = field(default_factory=list)  # the requests, in order

    def __enter__(self) -> CuttingProxy:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        parts = urlsplit(self.upstream)
        with client, contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port)) as server:
            while request := _read_message(client):
                line = request.split(b"\r\n", 1)[0].decode("latin-1")
                self.lines.append(line)
                cut = self.plan(line) or Cut()
                server.sendall(request[: cut.request])
                if cut.request is not None:
                    return
                answer = _read_message(server)
                time.sleep(cut.delay)
                client.sendall(answer[: cut.answer])
                if cut.answer is not None or not answer:
                    return


def _read_message(sock: socket.socket) -> bytes:
    """Return one request or answer with a declared length, b"" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := sock.recv(1 << 16)):
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    match = _LENGTH.search(head)
    remaining = (int(match[1]) if match else 0) - len(body)
    while remaining > 0:
        if not (piece := sock.recv(remaining)):
            return b""
        data += piece
        remaining -= len(piece)
    return data
