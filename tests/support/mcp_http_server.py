"""An MCP server over HTTP that gives the answers of a test in turn, and keeps the requests it got."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class HttpAnswer:
    """One answer: pieces of its body, sent in chunks. `body` is one piece, or a message as JSON."""

    body: Any = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    breaks_off: bool = False  # before its end

    def list_pieces(self) -> list[bytes]:
        """Return what is sent."""
        if isinstance(self.body, list) and all(isinstance(each, bytes) for each in self.body):
            return self.body
        return [self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()]


def stream(*messages: Any, **more: Any) -> HttpAnswer:
    """Return an event stream with these messages."""
    events = [b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n" for message in messages]
    return HttpAnswer(events, kind="text/event-stream", **more)


@dataclass
class HttpRequest:
    """One request that the server got."""

    method: str
    path: str
    headers: dict[str, str]
    message: Any


class McpHttpServer:
    """Gives the answers in turn; the last one repeats."""

    def __init__(self, *answers: HttpAnswer) -> None:
        self.answers, self.requests = list(answers), list[HttpRequest]()
        requests, queue = self.requests, self.answers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Write nothing."""

            def do_POST(self) -> None:
                """Answer a request."""
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                message = json.loads(body) if body else None
                requests.append(HttpRequest(self.command, self.path, dict(self.headers), message))
                answer = queue.pop(0) if len(queue) > 1 else queue[0]
                self.send_response_only(answer.status)
                for name, value in {"Content-Type": answer.kind, **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in answer.list_pieces():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
                self.wfile.write(b"" if answer.breaks_off else b"0\r\n\r\n")
                self.close_connection = True

            do_GET = do_DELETE = do_POST

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp?v=1"

    def __enter__(self) -> McpHttpServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
