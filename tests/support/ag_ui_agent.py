"""An AG-UI agent for tests: events that it sends, and requests that reach it through the server."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.server import Server

CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"]}


class FakeAgent:
    """An AG-UI endpoint: answers with `events`, keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.events: list[Any] = []
        self.status, self.breaks_off = 200, False
        self.headers: dict[str, str] = {}
        self.hold, self.hang_up = threading.Event(), threading.Event()
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.requests.append((body, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(agent.status)
                for name, value in agent.headers.items():
                    self.send_header(name, value)
                if "Content-Type" not in agent.headers:
                    self.send_header("Content-Type", "text/event-stream" if agent.status == 200 else "text/plain")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for event in agent.events:
                        if event == "hold":
                            while not agent.hold.wait(0.05):
                                self.write(b": still here\n\n")
                        else:
                            self.write(event if isinstance(event, bytes) else sse(event))
                    if not agent.breaks_off:
                        self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    agent.hang_up.set()
                self.close_connection = True

            def write(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/agui/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def reset(self, *events: Any, **headers: str) -> None:
        self.requests.clear()
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.events, self.status, self.breaks_off = list(events), 200, False
        self.hold.clear()
        self.hang_up.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def sse(event: dict[str, Any]) -> bytes:
    return f": a comment\ndata: {json.dumps(event)}\n\n".encode()


def call(call_id: str, tool: str = "delete_file", value: Any = None) -> list[dict[str, Any]]:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": tool},
        {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": json.dumps(value or {"path": "/a"})},
        {"type": "TOOL_CALL_END", "toolCallId": call_id},
    ]


def build_run_start(run: str) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": run, "runId": f"{run}-1"}


def build_interrupts(run: str, *call_ids: str, **metadata: Any) -> dict[str, Any]:
    interrupts = [
        {"id": f"int-{one}", "reason": "tool_call", "toolCallId": one, "metadata": metadata} for one in call_ids
    ]
    outcome = {"type": "interrupt", "interrupts": interrupts}
    return {"type": "RUN_FINISHED", "threadId": run, "runId": f"{run}-1", "outcome": outcome}


def finished(run: str) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": run, "runId": f"{run}-1"}


def requesting(run: str, number: int = 1, **interrupt: Any) -> list[dict[str, Any]]:
    fields = {"id": "ask", "reason": "input_required", "message": "Where <to>?", "responseSchema": CITY, **interrupt}
    run_id = f"{run}-{number}"
    outcome = {"type": "interrupt", "interrupts": [fields]}
    return [
        {"type": "RUN_STARTED", "threadId": run, "runId": run_id},
        {"type": "RUN_FINISHED", "threadId": run, "runId": run_id, "outcome": outcome},
    ]


def post(here: Server, run: str, name: str = "planner", headers: Any = None, **more: Any) -> tuple[int, Any]:
    fields = {"threadId": run, "runId": f"{run}-n", "messages": [], **more}
    status, body, _ = here.request("POST", f"/api/v1/ag-ui/{name}", fields, **(headers or {}))
    return status, body
