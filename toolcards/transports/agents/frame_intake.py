"""Intake of frames from one connection or body: split, decode, measure, count."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings

from toolcards import gate
from toolcards.adapters import ADAPTERS, Adapter, BadFrame, strict
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import FAULT, SkippedFrame
from toolcards.core.runs.sequence_set import SequenceNumber
from toolcards.ids import new_id
from toolcards.models import Source
from toolcards.transports.agents.exposed_keys import note_exposed_keys
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

log = logging.getLogger(__name__)
MODES = ("gate", "observe")
MAX_RUN_LENGTH = 200
MAX_STREAM_LENGTH = 64
SPACE = " \t\r\n"
_INPUT_ENDS = (f.InputReady, f.InputInvalid, f.OutputReady, f.OutputFailed, f.OutputDenied)
_raw = json.JSONDecoder().raw_decode


def get_adapter(protocol: str) -> Adapter:
    """Return the adapter; raises Problem 400 (socket 4400)."""
    adapter = ADAPTERS.get(protocol)
    if adapter is None:
        raise Problem(400, "unknown_protocol", f"protocol must be one of: {', '.join(sorted(ADAPTERS))}.")
    return adapter


def check_run_name(name: str) -> str:
    """Return the sender's run id if it can be one.

    Raises Problem 400.
    """
    if len(name) > MAX_RUN_LENGTH or not name.isprintable():
        raise Problem(400, "bad_run", f"run must be 1 to {MAX_RUN_LENGTH} printable characters.")
    return name


def check_stream_name(name: str) -> str:
    """Return the name of the sender's stream, "" for none.

    Raises Problem 400.
    """
    if len(name) > MAX_STREAM_LENGTH or not name.isprintable():
        raise Problem(400, "bad_stream", f"stream must be at most {MAX_STREAM_LENGTH} printable characters.")
    return name


def parse_mode(mode: str, default: str, caller: Caller) -> str:
    """Return gate or observe.

    Raises Problem 403 if the key lacks the scope for gate.
    """
    if mode and mode not in MODES:
        raise Problem(400, "bad_mode", "mode must be gate or observe.")
    may_decide = "decide" in caller.scopes
    if mode == "gate" and not may_decide:
        raise Problem(403, "scope", "mode=gate needs a key with the scope decide.", close=4403)
    return mode or (default if may_decide else "observe")


def iterate_frames(text: str) -> Iterator[str]:
    """Yield the frames of one message.

    Raises BadFrame, perhaps only at the end of an array.
    """
    if text[:1] != "[" and text.lstrip(SPACE)[:1] != "[":
        yield text
        return
    position = _skip_space(text, text.index("[") + 1)
    if text[position : position + 1] != "]":
        while True:
            start = position
            try:
                _, position = _raw(text, position)
            except (RecursionError, ValueError) as error:
                raise strict.build_error(text, error, settings.TOOLCARDS.max_depth + 1) from None
            yield text[start:position]
            position = _skip_space(text, position)
            if text[position : position + 1] != ",":
                break
            position = _skip_space(text, position + 1)
    if text[position : position + 1] != "]" or text[position + 1 :].strip(SPACE):
        raise BadFrame("not JSON: the array is not complete", "not_json")


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] and text[position] in SPACE:
        position += 1
    return position


TOO_MANY_GAPS = BadFrame("n: too many numbers before it are missing; send those first, or start another run", "gaps")


def build_fault(call_id: str) -> BadFrame:
    """Return the error of a frame that our fault cost."""
    return BadFrame(
        "The server could not record this frame and skipped it. Its log has the cause.", "internal", call_id
    )


class Intake:
    """The frames of one connection. `run` is known from the start or from the first readable frame.

    With `numbering`, the name of the sender's stream, the numbers of its frames are of that stream, not of the run.
    """

    def __init__(
        self,
        caller: Caller,
        adapter: Adapter,
        *,
        run: str,
        agent: str,
        mode: str,
        channel: str,
        numbering: str = "",
        on_open: Callable[[gate.Stream], None] = lambda stream: None,
        on_commit: Callable[[gate.CommitReport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.caller, self.adapter, self.run, self.mode = caller, adapter, run, mode
        self.accepted_count = self.skipped_count = self.refused_count = 0
        self.is_generated_name = False  # the run's name was generated here
        self.earlier_start = 0.0  # when an earlier request with the same key began
        self.first_error: BadFrame | None = None
        self.stream: gate.Stream | None = None
        self._agent, self._channel, self._numbering = agent, channel, numbering
        self._on_open, self._on_commit, self._on_failure = on_open, on_commit, on_failure
        self._depth, self._max_args = settings.TOOLCARDS.max_depth + 1, settings.TOOLCARDS.max_args
        self._input_sizes: dict[str, int] = {}  # call id -> characters of its streaming input
        self._max_frame = settings.TOOLCARDS.max_frame
        self._decode, self._find_number, self._find_piece = adapter.decode, adapter.find_number, adapter.find_piece
        if run:
            self.open()

    def take(self, text: str) -> BadFrame | None:
        """Push one frame; return its error, if any.

        A fault of ours costs this frame, which is counted as skipped.
        """
        if len(text) > self._max_frame:
            return self.refuse(BadFrame(f"a frame of more than {self._max_frame} characters", "too_large"))
        error: BadFrame | None = None
        facts: Any
        try:
            piece = self._find_piece(text)
            facts, number = self._read(text) if piece is None else (None, 0)
        except BadFrame as bad:
            return self.refuse(bad)
        except Exception as fault:
            log.error("a frame of run %s was skipped: it could not be read", self.run, exc_info=fault)
            piece, facts, number, error = None, SkippedFrame(FAULT), 0, build_fault("")
            self.first_error = self.first_error or error
        if piece is not None:
            return self._grow(*piece, text)
        stream = self.stream or self.open(text)
        if type(facts) is SkippedFrame:
            self.skipped_count += 1
        else:
            self.accepted_count += 1
        note_exposed_keys(text, self.run)
        stream.push(facts, number)
        return error

    def _read(self, text: str) -> tuple[Any, SequenceNumber]:
        """Return the facts and the number of a frame; raises BadFrame."""
        facts = self._decode(text, self._depth)
        if not isinstance(facts, SkippedFrame):
            self._measure(facts, text)
        return facts, self._qualify(self._find_number(text) or 0)

    def _grow(self, piece: f.InputPiece, number: int, text: str) -> BadFrame | None:
        """Push a frame with one piece of input: nine of ten on a busy server."""
        call_id, piece_text = piece
        self._input_sizes[call_id] = size = self._input_sizes.get(call_id, 0) + len(piece_text)
        if size > self._max_args:
            return self.refuse(self._too_large(call_id))
        self.accepted_count += 1
        (self.stream or self.open(text)).push(
            piece, (self._numbering, number) if self._numbering and number else number
        )
        return None

    def _qualify(self, number: SequenceNumber) -> SequenceNumber:
        """Return the number in the sender's stream, if it has named one."""
        return (self._numbering, number) if self._numbering and type(number) is int and number else number

    @property
    def covered_size(self) -> int:
        """Return how many of the following bytes an earlier request counted."""
        return 0

    async def charge(self, size: int, follow_up: int = 0) -> None:
        """Count a piece of the body for its quota; `follow_up` bytes follow.

        Raises QuotaExceeded once the pieces before it are committed; its details say how many frames are stored.
        """
        try:
            auth.charge(self.caller.agent.pk, size, follow_up=follow_up)
        except auth.QuotaExceeded as problem:
            if self.stream is not None:
                await self.stream.wait_until_committed()
                problem.details |= {"run": self.run, "accepted": self.accepted_count, "skipped": self.skipped_count}
                problem.message += f" The {self.accepted_count} frames before are stored."
            raise

    def refuse(self, bad: BadFrame) -> BadFrame:
        """Count an invalid frame."""
        self.refused_count += 1
        self.first_error = self.first_error or bad
        if self.stream is not None:
            self.stream.push([])
        return bad

    def _committed(self, report: gate.CommitReport) -> None:
        """Count the frames that the gate refused or could not record, then call `on_commit`."""
        for call_id in report.faults:
            self.accepted_count -= 1
            self.skipped_count += 1
            self.first_error = self.first_error or build_fault(call_id)
        if report.refused_frames:
            self.accepted_count -= report.refused_frames
            self.refused_count += report.refused_frames
            self.first_error = self.first_error or TOO_MANY_GAPS
        if self._on_commit is not None:
            self._on_commit(report)

    def open(self, first: str = "") -> gate.Stream:
        """Open the stream of the run.

        Its name is the sender's, else the frame's, else a new one.
        """
        if not self.run and first:
            self.run = check_run_name(self.adapter.find_run_id(first))
        if not self.run:
            self.run, self.is_generated_name = new_id("run"), True
        self.stream = self._open_stream(
            self.caller.agent, self.run, protocol=self.adapter.name, agent=self._agent, mode=self.mode,
            channel=self._channel, on_commit=self._committed, on_failure=self._on_failure,
        )  # fmt: skip
        self._on_open(self.stream)
        for _ in range(self.refused_count):
            self.stream.push([])  # earlier invalid frames count in the acks too
        return self.stream

    def end(self) -> None:
        """Push the end of the body.

        Open the stream if there was no frame.
        """
        stream = self.stream or self.open()
        if self.adapter.body_is_stream:
            stream.push([gate.build_end_of_stream()])

    def _open_stream(self, source: Source, run: str, **options: Any) -> gate.Stream:
        return gate.open_stream(source, run, **options)

    def _measure(self, facts: list[Any], text: str) -> None:
        """Refuse arguments beyond the limit, streamed or whole."""
        for fact in facts:
            kind = type(fact)
            if kind is f.InputDelta or kind is f.InputChunk:
                if kind is f.InputChunk and fact.call_id:
                    self._input_sizes.pop("", None)  # chunks without an id continue another call from here on
                size = self._input_sizes.get(fact.call_id, 0) + len(fact.text)
                self._input_sizes[fact.call_id] = size
                if size > self._max_args:
                    raise self._too_large(fact.call_id)
            elif kind in _INPUT_ENDS:
                if self._input_sizes.pop(fact.call_id, 0) > self._max_args:
                    self._input_sizes[fact.call_id] = self._max_args + 1
                if len(text) > self._max_args and kind is f.InputReady and _measure_json(fact.input) > self._max_args:
                    raise self._too_large(fact.call_id)

    def _too_large(self, call_id: str) -> BadFrame:
        return BadFrame(f"arguments of more than {self._max_args} bytes", "too_large", call_id)


def _measure_json(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
