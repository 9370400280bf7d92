"""Forms of a server over stdio: removed from its messages, answered in the inbox, and sent back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcards.mcp.elicitation import MAX_ROUNDS, build_repetition
from toolcards.mcp.messages import (
    CANCELLED,
    Message,
    find_key,
    format_id,
    get_object,
    is_request,
    is_response,
    make_progress,
    make_similar_id,
)
from toolcards.mcp.session import Session

PROGRESS = 5.0  # seconds between progress notifications while a form waits


@dataclass
class RepeatableRequest:
    """A request of the client with forms for the gateway, and its id at the server."""

    request: Message
    number: Any
    rounds: int = 0
    is_cancelled: bool = False


class StdioForms:
    """The forms of one server process."""

    def __init__(
        self, session: Session, write_server: Callable[[Any], bool], write_client: Callable[[Message], None]
    ) -> None:
        self._session, self._forms = session, session.elicitations
        self._write_server, self._write_client = write_server, write_client
        self._repeatable: dict[str, RepeatableRequest] = {}  # by the key of the client's id
        self._aliases: dict[str, Any] = {}  # ids of the client by the keys of those of repeated requests

    def declare(self, message: Message) -> Message:
        """Return the message for the server, with the capability for forms."""
        if not is_request(message):
            return message
        declared_message = self._forms.declare(message)
        if declared_message is not message and message["method"] != "initialize":
            self._repeatable[format_id(message["id"])] = RepeatableRequest(declared_message, message["id"])
        return declared_message

    def cancel(self, message: Message) -> Message:
        """Stop the forms of a canceled request; return the server's message."""
        params = get_object(message, "params")
        repeatable = self._repeatable.get(format_id(params.get("requestId")))
        if repeatable is not None:
            repeatable.is_cancelled = True
            message = message | {"params": params | {"requestId": repeatable.number}}
        if not self._session.has_open_calls():
            self._forms.cancel_all()
        return message

    def owns(self, number: Any) -> bool:
        """Return whether a repeated request has this id, and no response yet."""
        return find_key(self._aliases, number) in self._aliases

    def restore_id(self, message: Any) -> Any:
        """Return the message with the client's id.

        Only responses to repeated requests have another one.
        """
        if not is_response(message) or not self.owns(message["id"]):
            return message
        return message | {"id": self._aliases.pop(find_key(self._aliases, message["id"]))}

    def take(self, message: Any) -> bool:
        """Begin to answer the message if it is a form.

        Returns whether the gateway answers it.
        """
        if self._forms.takes(message):
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
            return True
        if isinstance(message, dict) and message.get("method") == CANCELLED:
            return self._forms.cancel(get_object(message, "params").get("requestId"))
        if not is_response(message):
            return False
        key, forms = format_id(message["id"]), self._forms.find_forms(message)
        repeatable = self._repeatable.get(key)
        if forms is None or repeatable is None or repeatable.rounds >= MAX_ROUNDS:
            self._repeatable.pop(key, None)
            self._forms.forget(message["id"])
            return False
        threading.Thread(target=self._repeat, args=(message, forms, repeatable), daemon=True).start()
        return True

    def _answer(self, request: Message) -> None:
        with _Progress(self):
            response = self._forms.ask(request)
        self._write_server(response)

    def _repeat(self, response: Message, forms: dict[str, Message], repeatable: RepeatableRequest) -> None:
        """Repeat a request of the client with a person's answers, unless the client cancels it."""
        with _Progress(self):
            answers = self._forms.ask_all(forms, lambda: repeatable.is_cancelled)
        if repeatable.is_cancelled:
            self._repeatable.pop(format_id(response["id"]), None)
            return
        repeatable.number, repeatable.rounds = self._make_id(response["id"]), repeatable.rounds + 1
        repetition = build_repetition(repeatable.request, response, answers, repeatable.number)
        call = self._session.find_call(response["id"])
        if call is not None:
            with _Progress(self):
                _, verdict = self._session.repeat(call, repetition)
            if verdict.request is None:
                self._repeatable.pop(format_id(response["id"]), None)
                if verdict.answer is not None:
                    self._write_client(verdict.answer)
                return
            repetition = verdict.request
        self._aliases[format_id(repeatable.number)] = response["id"]
        self._write_server(repetition)

    def _make_id(self, number: Any) -> Any:
        """Return an id that no open request has."""
        while True:
            own_number = make_similar_id(number)
            if not self.owns(own_number) and self._session.find_call(own_number) is None:
                return own_number

    def show_progress(self, is_answered: threading.Event) -> None:
        """Send progress notifications until the form is answered.

        Clients with a time limit then keep waiting for the calls that the server runs.
        """
        for count in itertools.count(1):
            if is_answered.wait(PROGRESS):
                return
            for token in self._session.list_progress_tokens():
                self._write_client(make_progress(token, count))


class _Progress:
    """Shows progress while the block runs."""

    def __init__(self, forms: StdioForms) -> None:
        self._forms, self._is_answered = forms, threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._forms.show_progress, args=(self._is_answered,), daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self._is_answered.set()
