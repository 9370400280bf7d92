"""Reviewers of tests: policies that name one, its answers, and fake models on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolcards import gate
from toolcards.core.review.review_answer import ReviewAnswer
from toolcards.models import Review

NAME = "guard-model"
MODEL = {"kind": "model", "mode": "enforce", "api": "openai", "url": "http://127.0.0.1:9/v1", "model": "m"}


def build_policy(reviewer: dict[str, Any] | None = None, **rule: Any) -> dict[str, Any]:
    """Return a policy whose only rule asks this reviewer about calls of bash."""
    ask = {"id": "asks", "effect": "ask", "match": {"tool": "bash"}, "review": NAME, **rule}
    return {"v": 1, "default": "allow", "reviewers": {NAME: MODEL | (reviewer or {})}, "rules": [ask]}


def answer_review(answer: str, reason: str = "It is small.") -> bool:
    """Answer the newest review; return whether this settled the question."""
    review = Review.objects.latest("pk")
    return gate.record_review(gate.ReviewOutcome(review.pk, review.approval_id, ReviewAnswer(answer, reason)))


def fail_review(note: str = "No answer in time.") -> None:
    """Let the newest review fail."""
    review = Review.objects.latest("pk")
    gate.record_review(gate.ReviewOutcome(review.pk, review.approval_id, note=note, is_failure=True))


def reply(answer: str, reason: str = "It is small.") -> bytes:
    """Return the response of a model of the OpenAI API with this answer."""
    text = json.dumps({"answer": answer, "reason": reason})
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


class FakeModel(ThreadingHTTPServer):
    """A server that answers each request with what `respond` makes of its body."""

    daemon_threads = True

    def __init__(self, respond: Callable[[Any], bytes]) -> None:
        self.respond = respond
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.answer_count = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/v1"


@contextmanager
def run_model(respond: Callable[[Any], bytes]) -> Iterator[FakeModel]:
    """Run a fake model during the block."""
    server = FakeModel(respond)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FakeModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((dict(self.headers.items()), body))
        content = self.server.respond(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.server.answer_count += 1

    def log_message(self, *args: Any) -> None:
        pass
