"""`toolcards approvals watch`: questions as they come, answered by a key."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from toolcards.terminal.approvals_client import ApprovalsClient, RequestFailed
from toolcards.terminal.waiting_calls import WaitingCall, draw, draw_line

try:
    import termios
    import tty
except ImportError:  # Windows: there `watch` has no keys
    termios = None  # type: ignore[assignment]

__all__ = ["InboxWatch", "Keyboard", "can_read_keys", "stream_json"]

PAUSE = 2.0  # seconds between two looks at the server
NOTIFIERS = (("notify-send", "Toolcards"), ("osascript", "-e"))
HELP = "a approve · d deny · n next · q quit"


def can_read_keys() -> bool:
    """Return whether this system gives single keys to a program."""
    return termios is not None


class Keyboard:
    """Keys of a terminal, one at a time, and lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def read_key(self, seconds: float) -> str:
        """Return the key that is pressed within `seconds`, else ""."""
        with self._raw():
            is_ready, _, _ = select.select([self._stream], [], [], seconds)
            return self._stream.read(1) if is_ready else ""

    def read_line(self) -> str:
        """Return a line, with the terminal's own editing."""
        return self._stream.readline().rstrip("\n")

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        before = termios.tcgetattr(self._stream)
        try:
            tty.setcbreak(self._stream, termios.TCSADRAIN)
            yield
        finally:
            termios.tcsetattr(self._stream, termios.TCSADRAIN, before)


@dataclass
class InboxWatch:
    """The questions of a server, and the one that the person looks at."""

    client: ApprovalsClient
    keyboard: Keyboard
    write: Callable[[str], object]
    color: bool = False
    bell: bool = False
    notify: bool = False
    _announced_ids: set[str] = field(default_factory=set)
    _later_ids: set[str] = field(default_factory=set)  # `n`: looked at later
    _current: WaitingCall | None = None
    _fault: str = ""

    def run(self) -> None:
        """Show and answer until the person quits."""
        self.write(f"Watching {self.client.url}. {HELP}\n")
        while True:
            self._look()
            key = self.keyboard.read_key(PAUSE).lower()
            if key == "q" or key == "\x04":
                return
            if self._current is not None and key in ("a", "d", "n"):
                self._act(self._current, key)

    def _look(self) -> None:
        try:
            waiting = self.client.list_waiting()
        except RequestFailed as error:
            if str(error) != self._fault:
                self.write(f"{error}\n")
            self._fault = str(error)
            return
        self._fault = ""
        for question in waiting:
            if question.id not in self._announced_ids:
                self._announced_ids.add(question.id)
                self._announce(question)
        self._show_current(waiting)

    def _show_current(self, waiting: list[WaitingCall]) -> None:
        """Keep the current question while it waits unchanged; else show the next one."""
        ids = {question.id for question in waiting}
        self._later_ids &= ids
        current = self._current
        if current is not None:
            now = next((question for question in waiting if question.id == current.id), None)
            if now is not None and now.ballot == current.ballot:
                return
            change = "was answered elsewhere or withdrawn" if now is None else "has changed"
            self.write(f"{current.id} {change}.\n")
        if waiting and ids == self._later_ids:
            self._later_ids.clear()
        self._current = next((question for question in waiting if question.id not in self._later_ids), None)
        if self._current is not None:
            more = len(waiting) - 1
            self.write("\n" + "".join(f"{line}\n" for line in draw(self._current, color=self.color)))
            self.write(f"{HELP}{f' · {more} more' if more else ''}\n")

    def _act(self, question: WaitingCall, key: str) -> None:
        self._current = None
        if key == "n":
            self._later_ids.add(question.id)
            return
        fields = {}
        if key == "a":
            if question.asks:
                self.write(f"The agent asks: toolcards approvals answer {question.id}\n")
                self._later_ids.add(question.id)
                return
            if question.risk == "high" and not self._confirms():
                self._current = question
                return
        else:
            self.write("Reason (Enter: none): ")
            fields = {"reason": self.keyboard.read_line().strip()}
        try:
            answer = self.client.vote(question, "approve" if key == "a" else "deny", **fields)
        except RequestFailed as error:
            self.write(f"{error}\n")
        else:
            self.write(f"{question.id} {answer['state']}.\n")

    def _confirms(self) -> bool:
        self.write("High risk. Type yes to approve: ")
        if self.keyboard.read_line().strip() == "yes":
            return True
        self.write("Not approved.\n")
        return False

    def _announce(self, question: WaitingCall) -> None:
        if self.bell:
            self.write("\a")
        if self.notify:
            notify(draw_line(question))


def notify(text: str) -> None:
    """Show a desktop notification, if this computer has a program for it."""
    for program, *options in NOTIFIERS:
        path = shutil.which(program)
        if path is not None:
            script = f"display notification {json.dumps(text, ensure_ascii=False)} with title {json.dumps('Toolcards')}"
            words = [path, *options, script if program == "osascript" else text]
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(words, check=False, capture_output=True, timeout=5)  # noqa: S603 - no shell
            return


def stream_json(client: ApprovalsClient, write: Callable[[str], object], pause: float = PAUSE) -> None:
    """Write each question that comes or changes as JSON.

    One that is over is `{"id", "gone": true}`.
    """
    known_ballots: dict[str, object] = {}
    while True:
        try:
            waiting = client.list_waiting()
        except RequestFailed as error:
            print(error, file=sys.stderr)  # noqa: T201
        else:
            for question in waiting:
                if known_ballots.get(question.id) != question.ballot:
                    write(json.dumps(question.entry) + "\n")
            for approval in known_ballots.keys() - {question.id for question in waiting}:
                write(json.dumps({"id": approval, "gone": True}) + "\n")
            known_ballots = {question.id: question.ballot for question in waiting}
        time.sleep(pause)
