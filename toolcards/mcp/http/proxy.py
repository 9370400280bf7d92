"""The gateway over streamable HTTP: a reverse proxy that holds the POST of a call until the gate has decided.

One thread per connection: the gateway is on the agent's computer, before one upstream server.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from toolcards.mcp.http.client_handler import (
    CONNECTION_LOSS,
    ClientHandler,
    conclude,
    contradicts,
    find_fault,
    join_heads,
)
from toolcards.mcp.http.event_stream import EventReader, convert_to_event, format_event, is_message
from toolcards.mcp.http.forms import FormRelay
from toolcards.mcp.http.sessions import GatewaySessions, pass_cancellations
from toolcards.mcp.http.upstream import FAILURES, SESSION_ID, BrokenResponse, Response, UnusableResponse, Upstream
from toolcards.mcp.messages import (
    CALL,
    INVALID_REQUEST,
    PARSE_ERROR,
    Message,
    contains_call,
    get_object,
    is_request,
    make_error,
    make_progress,
    make_tool_error,
    parse,
    serialize,
)
from toolcards.mcp.session import DUPLICATE, HeldCall, HeldCallResult, Session

STREAM_AFTER = 1.0  # seconds that a call waits before its response begins as an event stream
PING = 5.0  # seconds between comments or progress notifications on that stream
CHANGED = "A person changed the arguments, but headers of this request carry the old ones, so the call did not run."
CONTRADICTION = "The headers of this request name another method or tool than its body, so nothing ran."
UNANSWERABLE = "Toolcards accepts one call with an id per request, so nothing ran."
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class Gateway(ThreadingHTTPServer):
    """The listening server, with its upstream and sessions."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], upstream: Upstream, sessions: GatewaySessions) -> None:
        self.upstream, self.sessions = upstream, sessions
        self.hosts = {address[0], *(LOOPBACK if address[0] in LOOPBACK else ())}
        super().__init__(address, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a failure of one connection in one line, unless it broke."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"toolcards: {error!r}", file=sys.stderr, flush=True)  # noqa: T201


class Handler(ClientHandler):
    """One connection of a client."""

    server: Gateway

    def do_POST(self) -> None:
        """Hold a call, or forward another message."""
        body = self.read_body()
        if body is None or not self._accepts():
            return
        try:
            message = parse(body)
        except ValueError as error:
            self.answer(400, make_error(None, PARSE_ERROR, f"Toolcards cannot read this message: {error}"))
            return
        if contradicts(self.headers, message):
            self.answer(400, make_error(message["id"], INVALID_REQUEST, CONTRADICTION))
            return
        number = self.headers.get(SESSION_ID, "")
        if is_request(message, "initialize") and not number:
            session = self.server.sessions.begin()
            session.note_request(message)
            self._forward(session.elicitations.declare(message), session, opens=True)
            return
        session = self.server.sessions.get(number)
        if is_request(message, CALL):
            self._hold(session, message)
        elif contains_call(message):
            self.answer(400, make_error(None, INVALID_REQUEST, UNANSWERABLE))
        elif (message := pass_cancellations(session, message)) is None:
            self.answer(202, None)
        else:
            if is_request(message):
                session.note_request(message)
                message = session.elicitations.declare(message)
            self._forward(message, session)

    def do_GET(self) -> None:
        """Forward the stream of the server's own messages."""
        if self._accepts():
            self._forward(None, self.server.sessions.get(self.headers.get(SESSION_ID, "")))

    def do_DELETE(self) -> None:
        """Forward the end of the session, and end its run."""
        number = self.headers.get(SESSION_ID, "")
        if self._accepts():
            self._forward(None, self.server.sessions.get(number))
            if number:
                self.server.sessions.end(number)

    # ------------------------------------------------------------ a call

    def _hold(self, session: Session, request: Message) -> None:
        """Wait for the decision; begin an event stream so that clients keep waiting."""
        call = session.begin_call(request)
        if call is None:
            self.answer(400, make_error(request["id"], INVALID_REQUEST, DUPLICATE))
            return
        verdicts: list[HeldCallResult] = []

        def decide() -> None:
            if session.tools.is_stale:
                meta = get_object(get_object(request, "params"), "_meta")
                heads = join_heads(self.headers.items())
                self.server.upstream.list_tools(session.tools, heads, meta, request["id"])
            verdicts.append(session.decide(call, request))

        waiter = threading.Thread(target=decide, daemon=True)
        waiter.start()
        waiter.join(STREAM_AFTER)
        is_stream = waiter.is_alive() and "text/event-stream" in self.headers.get("Accept", "")
        if is_stream and not self._stream_until_decided(waiter, call, request):
            session.abandon(call)
            return
        waiter.join()
        verdict = verdicts[0] if verdicts else HeldCallResult(answer=make_error(request["id"], -32603, "No decision."))
        if verdict.request is not None and (
            contradicts(self.headers, verdict.request)
            or (verdict.changed and any(name.lower().startswith("mcp-param-") for name in self.headers))
        ):
            session.abandon(call)
            verdict = HeldCallResult(answer=make_tool_error(request["id"], CHANGED, "integrity"))
        if verdict.request is not None:
            self._forward(session.elicitations.declare(verdict.request), session, call=call, is_stream=is_stream)
        elif is_stream:
            self.write_chunk(format_event(verdict.answer) if verdict.answer is not None else b"")
            self.end_chunks()
        else:
            self.answer(200 if verdict.answer is not None else 202, verdict.answer)

    def _stream_until_decided(self, waiter: threading.Thread, call: HeldCall, request: Message) -> bool:
        """Keep an event stream alive; return False if the client has disconnected."""
        token = get_object(get_object(request, "params"), "_meta").get("progressToken")
        self.begin_chunks(200, [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")])
        for count in itertools.count(1):
            waiter.join(PING)
            if not waiter.is_alive() or call.is_cancelled:
                return True
            try:
                self.write_chunk(format_event(make_progress(token, count)) if token is not None else b": waiting\n\n")
            except OSError:
                return False
        return True

    # ------------------------------------------------------------ passing on

    def _forward(
        self,
        message: Any,
        session: Session,
        *,
        call: HeldCall | None = None,
        is_stream: bool = False,
        opens: bool = False,
    ) -> None:
        """Send the message upstream and forward the response, reading it on the way.

        `is_stream`: the response to the client has begun as an event stream. `opens`: the response names the session.
        """
        body = None if message is None else serialize(message)
        try:
            response = self.server.upstream.request(self.command, body, join_heads(self.headers.items()))
        except UnusableResponse as error:
            self._fail(session, call, message, is_stream, f"The answer of the MCP server cannot be passed on: {error}.")
            return
        except FAILURES as error:
            self._fail(session, call, message, is_stream, f"The MCP server cannot be reached: {error}")
            return
        if opens and (number := response.get_header(SESSION_ID)):
            self.server.sessions.adopt(number, session)
        try:
            if session.elicitations.adopts(message):
                FormRelay(self, self.server.upstream, session, message, call, is_stream).pass_on(response)
            else:
                with contextlib.closing(response):
                    self._pass_on(response, session, call, is_stream)
        except FAILURES as error:  # either side has disconnected
            self.close_connection = True
            answer = conclude(session, call, response, CONNECTION_LOSS)
            if answer is not None and isinstance(error, BrokenResponse):
                self.break_off(answer)

    def _pass_on(self, response: Response, session: Session, call: HeldCall | None, is_stream: bool) -> None:
        reader, held_body = EventReader(response.content_type), b""
        if not is_stream:
            self.begin_chunks(response.status, response.headers)
        for piece in response:
            for message in reader.feed(piece):
                session.note_message(message)
            if is_stream and not response.has_events:
                held_body += piece
            else:
                self.write_chunk(piece)
        for message in reader.close():
            session.note_message(message)
        if is_stream and not response.has_events:
            self.write_chunk(convert_to_event(held_body, response.status, call.request_id if call else None))
        answer = conclude(session, call, response)
        if answer is not None and (response.has_events or (is_stream and is_message(held_body))):
            self.write_chunk(format_event(answer))
        self.end_chunks()

    def _fail(self, session: Session, call: HeldCall | None, message: Any, is_stream: bool, text: str) -> None:
        if call is not None:
            session.abandon(call, text)
        number = message.get("id") if isinstance(message, dict) else None
        error = make_error(number, -32603, text)
        if is_stream:
            self.write_chunk(format_event(error))
            self.end_chunks()
        else:
            self.answer(502, error)

    # ------------------------------------------------------------ HTTP

    def _accepts(self) -> bool:
        """Return whether the request may pass; refuse it otherwise."""
        has_body = self.command == "POST"
        fault = find_fault(self.headers, self.server.hosts, has_body=has_body)
        if fault is None and urlsplit(self.path).path.rstrip("/") != self.server.upstream.path.rstrip("/"):
            fault = 404, f"The address ends with {self.server.upstream.path}."
        if fault is not None:
            self.close_connection = self.close_connection or not has_body  # it may be followed by one
            self.answer(fault[0], make_error(None, INVALID_REQUEST, fault[1]))
        return fault is None


def serve(sessions: GatewaySessions, upstream: str, address: tuple[str, int], headers: Mapping[str, str]) -> int:
    """Serve until a signal arrives; return the exit code."""
    try:
        gateway = Gateway(address, Upstream(upstream, headers), sessions)
    except OSError as error:
        print(f"toolcards: cannot listen on {address[0]}:{address[1]}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    path = urlsplit(upstream).path
    print(f"Listening on http://{address[0]}:{gateway.server_address[1]}{path}", file=sys.stderr, flush=True)  # noqa: T201
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=gateway.shutdown, daemon=True).start())
    with contextlib.closing(gateway.socket):
        gateway.serve_forever()
    sessions.end_all()
    return 0
