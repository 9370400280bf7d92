"""A server that receives webhooks."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolcards.core.calls import facts as f


class Receiver(ThreadingHTTPServer):
    """A webhook receiver with configurable answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status, self.headers, self.pause = 200, {}, 0.0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook?x=1"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((dict(self.headers.items()), body))
        if self.server.pause:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(1000):
                time.sleep(self.server.pause)
                try:
                    self.wfile.write(b"X-Drip: x\r\n")
                except OSError:
                    return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


FAILED = [f.InputReady("c", "bash", {"command": "rm"}, True), f.OutputFailed("c", "broke", "timeout")]
