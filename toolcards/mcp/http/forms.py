"""Forms of a server over HTTP: removed from its responses, answered in the inbox, and sent back."""

from __future__ import annotations

import contextlib
import email.message
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from toolcards.client.common.http_heads import EVENTS, JSON
from toolcards.mcp.elicitation import MAX_ROUNDS, build_repetition
from toolcards.mcp.http.client_handler import conclude, join_heads
from toolcards.mcp.http.event_stream import EventReader, StreamSplitter, convert_to_event, format_event, is_message
from toolcards.mcp.http.upstream import FAILURES, Response, Upstream
from toolcards.mcp.messages import (
    CALL,
    CANCELLED,
    Message,
    get_object,
    is_request,
    is_response,
    is_same_id,
    make_error,
    make_progress,
    make_similar_id,
    serialize,
)
from toolcards.mcp.session import HeldCall, Session

PING = 5.0  # seconds between comments or progress notifications while a form waits
STREAM = [("Content-Type", EVENTS), ("Cache-Control", "no-store")]


class ClientConnection(Protocol):
    """The client's end: its request's headers, and a response that is written in chunks."""

    headers: email.message.Message

    def begin_chunks(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Send the status and the headers."""

    def write_chunk(self, data: bytes) -> None:
        """Send a part of the body."""

    def end_chunks(self) -> None:
        """Send the last chunk of the body, which is empty."""


class FormRelay:
    """Forwards the responses to one request of the client, without the forms that the gateway answers.

    `request` is None for the stream of the server's own messages. `is_stream`: the response to the client has begun as
    an event stream.
    """

    def __init__(
        self, client: ClientConnection, upstream: Upstream, session: Session, request: Any, call: HeldCall | None,
        is_stream: bool,
    ) -> None:  # fmt: skip
        self._client, self._upstream, self._session = client, upstream, session
        self._request, self._call = request, call
        self._forms, self._is_stream = session.elicitations, is_stream
        self._id = request["id"] if is_request(request) else None
        self._own_id: Any = None  # of the repeated request
        self._headers = {name.title(): value for name, value in join_heads(client.headers.items()).items()}
        self._lock = threading.Lock()  # of what is written to the client
        self._needs_error = True  # if there is no result
        self._has_client_gone = threading.Event()
        self._is_over = threading.Event()

    def pass_on(self, response: Response) -> None:
        """Forward the response, and those to the repeated request."""
        try:
            for rounds in itertools.count():
                with contextlib.closing(response):
                    repeat = self._pass_one(response, has_more_rounds=rounds < MAX_ROUNDS)
                if repeat is None:
                    return
                response = self._send(repeat)
        finally:
            self._is_over.set()
            if self._id is not None:
                self._forms.forget(self._id)

    def _pass_one(self, response: Response, *, has_more_rounds: bool) -> Message | None:
        """Forward one response; return the next request, None after the last."""
        if response.has_events:
            if not self._is_stream:
                self._begin(response.status, response.headers)
            pending = self._pass_events(response, has_more_rounds)
        else:
            pending = self._pass_body(response, has_more_rounds)
        if pending is not None:
            return self._answer_all(pending)
        error = conclude(self._session, self._call, response)
        with self._lock:
            self._is_over.set()
            if error is not None and self._is_stream and self._needs_error:
                self._client.write_chunk(format_event(error))
            self._client.end_chunks()
        return None

    def _pass_events(self, response: Response, has_more_rounds: bool) -> Message | None:
        """Forward events; return the response with forms, if there is one."""
        for event, message in _split(response):
            own = self._restore_id(message)
            if own is not None and has_more_rounds and self._forms.find_forms(own) is not None:
                return own  # type: ignore[no-any-return]
            if self._take(own):
                continue
            self._session.note_message(own)
            self._write(event if own is message else format_event(own))
        return None

    def _pass_body(self, response: Response, has_more_rounds: bool) -> Message | None:
        body = b"".join(response)
        reader = EventReader(response.content_type)
        for message in (*reader.feed(body), *reader.close()):
            own = self._restore_id(message)
            if own is not None and has_more_rounds and self._forms.find_forms(own) is not None:
                return own  # type: ignore[no-any-return]
            self._session.note_message(own)
            body = body if own is message else serialize(own)
        if self._is_stream:
            self._needs_error = is_message(body)  # else the event is an error
            self._write(convert_to_event(body, response.status, self._id))
        else:
            self._begin(response.status, response.headers, is_stream=False)
            self._write(body)
        return None

    # ------------------------------------------------------------ forms

    def _take(self, message: Any) -> bool:
        """Begin to answer a form for the gateway; return whether it is one."""
        if self._forms.takes(message):
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
            return True
        is_cancel = isinstance(message, dict) and message.get("method") == CANCELLED
        return is_cancel and self._forms.cancel(get_object(message, "params").get("requestId"))

    def _answer(self, request: Message) -> None:
        """Send a person's answer to a form; a cancel if the client or the server has gone."""
        with _Pings(self._ping):
            answer = self._forms.ask(request, lambda: self._has_client_gone.is_set() or self._is_over.is_set())
        with contextlib.suppress(*FAILURES), contextlib.closing(self._send(answer)) as response:
            for _ in response:
                continue

    def _answer_all(self, response: Message) -> Message | None:
        """Return the client's request with a person's answers, None if the gate refused it."""
        if not self._is_stream and "text/event-stream" in self._headers.get("Accept", ""):
            self._begin(200, STREAM)
        call, forms = self._call, self._forms.find_forms(response) or {}
        with _Pings(self._ping if self._is_stream else lambda count: None):
            answers = self._forms.ask_all(
                forms, lambda: self._has_client_gone.is_set() or (call is not None and call.is_cancelled)
            )
        if self._has_client_gone.is_set():
            raise ConnectionError("The client disconnected.")
        self._own_id = make_similar_id(self._id)
        repetition = build_repetition(self._request, response, answers, self._own_id)
        if call is None or repetition.get("method") != CALL:
            return repetition
        with _Pings(self._ping if self._is_stream else lambda count: None):
            self._call, verdict = self._session.repeat(call, repetition)
        if verdict.request is not None:
            return verdict.request
        self._answer_client(verdict.answer or make_error(self._id, -32603, "No decision."))
        return None

    def _answer_client(self, message: Message) -> None:
        """End the response to the client with this message."""
        self._call = None
        with self._lock:
            self._is_over.set()
            if not self._is_stream:
                self._client.begin_chunks(200, [("Content-Type", JSON)])
            self._client.write_chunk(format_event(message) if self._is_stream else serialize(message))
            self._client.end_chunks()

    def _restore_id(self, message: Any) -> Any:
        """Return a response to the repeated request under the client's id.

        Other messages are unchanged.
        """
        is_own = self._own_id is not None and is_response(message) and is_same_id(message["id"], self._own_id)
        return message | {"id": self._id} if is_own else message

    # ------------------------------------------------------------ both ends

    def _send(self, message: Message) -> Response:
        headers = self._headers | {"Accept": f"{JSON}, {EVENTS}"}
        return self._upstream.request("POST", serialize(message), headers)

    def _begin(self, status: int, headers: list[tuple[str, str]], *, is_stream: bool = True) -> None:
        self._is_stream = is_stream
        self._client.begin_chunks(status, headers)

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._client.write_chunk(data)

    def _ping(self, count: int) -> None:
        """Send the client a sign of progress, or note that it has disconnected."""
        token = self._call.token if self._call is not None else None
        try:
            with self._lock:
                if not self._is_over.is_set():
                    self._client.write_chunk(
                        format_event(make_progress(token, count)) if token is not None else b": waiting\n\n"
                    )
        except OSError:
            self._has_client_gone.set()


class _Pings:
    """Calls `ping` with 1, 2, … while the block runs."""

    def __init__(self, ping: Callable[[int], None]) -> None:
        self._ping, self._is_over = ping, threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()

    def _run(self) -> None:
        for count in itertools.count(1):
            if self._is_over.wait(PING):
                return
            self._ping(count)


def _split(response: Response) -> Iterator[tuple[bytes, Any]]:
    splitter = StreamSplitter()
    for piece in response:
        yield from splitter.feed(piece)
    yield from splitter.close()
