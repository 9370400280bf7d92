"""Whatever a server answers that is not plainly an allow is a deny, and the gated function does not run."""

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.clients.hole import Hole
from tests.serving import PATIENCE
from toolcards.client import Denied, Toolcards, asking, gated
from toolcards.client.plain import Tools

ALLOW = {
    "decision": "allow", "call_id": "c1", "args_sha256": "a" * 64, "reason": {"code": "rule_allowed", "text": "fine"},
    "by": {"kind": "rule"}, "approval": None, "permit": {"id": "prm_1", "expires_at": None},
}  # fmt: skip
ASK = ALLOW | {"decision": "ask", "permit": None, "approval": {"id": "apr_1", "state": "pending"}}


@contextlib.contextmanager
def a_server(*answers):
    """Serve these (status, headers, body) in order, the last one again and again; give its client and the paths."""
    left, paths = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            paths.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield Toolcards(f"http://127.0.0.1:{server.server_port}", "key", timeout=PATIENCE), paths
    finally:
        server.shutdown()
        server.server_close()


UNCLEAR = {
    "a redirect": (302, {"Location": "/elsewhere"}, b""),
    "a server error": (500, {}, ALLOW),
    "another success": (201, {}, ALLOW),
    "no JSON": (200, {}, b"<html>allow</html>"),
    "a list": (200, {}, [ALLOW]),
    "an unknown decision": (200, {}, ALLOW | {"decision": "maybe"}),
    "a boolean decision": (200, {}, ALLOW | {"decision": True}),
    "no decision": (200, {}, {"call_id": "c1"}),
    "another call": (200, {}, ALLOW | {"call_id": "c2"}),
    "a question without a place to wait": (200, {}, ASK | {"approval": None}),
    "a wrong key": (401, {}, {"error": {"code": "unauthorized", "message": "no"}}),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_an_unclear_answer_denies(name):
    with a_server(UNCLEAR[name]) as (cards, paths):
        decision = cards.decide("r1", "c1", "bash", {"command": "ls"})
    assert (decision.effect, decision.allowed) == ("deny", False)
    assert paths == ["/api/v1/calls/decide"]  # and no redirect was followed


def test_no_server_denies():
    decision = Toolcards("http://127.0.0.1:9", "key", timeout=1).decide("r1", "c1", "bash", {})
    assert decision.effect == "deny"


@pytest.mark.parametrize("args", [{"a": object()}, {"a": float("nan")}, {"a": {1, 2}}])
def test_arguments_that_are_no_json_are_denied(args):
    with a_server((200, {}, ALLOW)) as (cards, paths):
        assert cards.decide("r1", "c1", "bash", args).effect == "deny"
    assert paths == []


def test_an_allow_without_a_permit_cannot_be_claimed():
    with a_server((200, {}, ALLOW | {"permit": None})) as (cards, _):
        assert cards.ask("r1", "c1", "bash", {}).effect == "deny"


@pytest.mark.parametrize("claimed", [(410, {}, {}), (200, {}, {"state": "claimed", "call_id": "c2"}), (200, {}, {})])
def test_a_permit_that_is_not_plainly_claimed_denies(claimed):
    with a_server((200, {}, ALLOW), claimed) as (cards, _):
        assert cards.ask("r1", "c1", "bash", {}).effect == "deny"


def test_waiting_ends_after_the_given_seconds():
    with a_server((200, {}, ASK)) as (cards, _):
        decision = cards.wait(cards.decide("r1", "c1", "bash", {}), seconds=0.3)
    assert (decision.effect, decision.code) == ("deny", "approval_expired")


def test_waiting_outlives_a_restart_of_the_server():
    with a_server((200, {}, ASK), (503, {}, b""), (200, {}, ALLOW)) as (cards, _):
        assert cards.wait(cards.decide("r1", "c1", "bash", {}), seconds=PATIENCE).allowed


def test_waiting_ends_where_the_server_has_no_more_words(monkeypatch):
    """It took the question, then it hangs: nobody waits for ever, however long a person might have had."""
    monkeypatch.setattr(asking, "ASKED_PATIENCE", 0.5)
    for ask in (Toolcards.ask, lambda cards, *call: asyncio.run(cards.aask(*call))):
        with a_server((200, {}, ASK), (503, {}, b"")) as (cards, _):
            decision = ask(cards, "r1", "c1", "bash", {})
        assert (decision.effect, decision.code) == ("deny", "gate_unavailable")
        assert "has not answered" in decision.text


def test_a_server_that_takes_connections_and_never_answers_denies():
    """By HTTP and by WebSocket, each within its own limit, and it says so."""
    ran = []
    with Hole() as hole:
        cards = Toolcards(hole.url, "key", timeout=0.5)
        decision = cards.ask("r1", "c1", "bash", {})
        assert (decision.effect, decision.text) == ("deny", "The gate could not be asked: timed out")
        with pytest.raises(Denied, match="timed out"):
            gated(cards, run="r1")(lambda: ran.append(1))()
        with cards.run("r2", offline=0.5, linger=0.5) as run:
            said = run.call("bash", "c2").decision_now({})
            assert (said.effect, said.code) == ("deny", "gate_unavailable") and "no answer in time" in said.text
            assert Tools({"bash": lambda: ran.append(2)}).call("bash", {}, "c3").state == "output-denied"
    assert ran == [] and hole.swallowed


def test_a_forgotten_question_denies_at_once():
    with a_server((200, {}, ASK), (404, {}, {})) as (cards, _):
        assert cards.wait(cards.decide("r1", "c1", "bash", {})).effect == "deny"


def test_a_denied_function_does_not_run():
    ran = []
    with a_server((503, {}, b"")) as (cards, _):

        @gated(cards, run="r1")
        def delete(path):
            ran.append(path)

        with pytest.raises(Denied):
            delete("/")
    assert ran == []


def test_gated_refuses_generators():
    def later():
        yield

    with pytest.raises(TypeError, match="generator"):
        gated(Toolcards("http://127.0.0.1:9", "k"), run="r1")(later)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000", "http://"])
def test_an_address_must_be_one(url):
    with pytest.raises(ValueError, match="address"):
        Toolcards(url, "key")
