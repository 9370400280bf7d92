"""The interface of adapters: a name and two pure functions, `decode` and `encode`.

`decode(text)` turns one frame, exactly as received, into facts: `[]` if a known frame has no facts,
`SkippedFrame(kind)` if the frame's kind is unknown (skipped and counted), `BadFrame` if it is invalid.
`encode(answer)` turns an answer into the object that the protocol expects, or None if it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolcards.core.calls.facts import AnyFact, InputChunk, InputPiece
from toolcards.core.runs.run_context import SkippedFrame

MAX_DEPTH = 32  # objects and arrays inside each other; the transport passes its own setting
Facts = list[AnyFact | InputChunk]


class BadFrame(ValueError):
    """An invalid frame; `code` is listed in docs/api.md, the message is for the sender.

    Codes: not_json, not_object, duplicate_key, too_deep, too_large, missing_field, bad_field.
    """

    def __init__(self, message: str, code: str = "bad_frame", call_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.call_id = call_id  # of a call that gets no decision because of it
        self.message = message


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to an approval, for the agent; `reply_to` is the adapter's data from the request.

    `input` is what the answer is about, and what may run; `edited_input` is the same if a person changed it, else None.
    """

    call_id: str
    source_id: str
    approved: bool
    reason: str = ""
    edited_input: Any = None
    reply_to: Any = None
    input: Any = None


class DecodeFrame(Protocol):
    """The signature of `decode`; `depth` is the maximum nesting of values."""

    def __call__(self, text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
        """Return the facts of the frame; raises BadFrame."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A protocol. `body_is_stream`: the end of an HTTP body ends the stream; `gated`: decisions are sent on its socket
    unless the connection sets another mode; `find_run_id` finds the run's id in a frame, `find_number` the sender's own
    sequence number: of the run, from 1, or (stream, number in that stream, in order).

    `find_piece` reads hot frames only, fast: their piece of input and number (0 for none), or None for any
    other frame. It agrees with `decode` and `find_number`.

    `encode_all` answers all approvals of a run together, if the protocol needs that.
    """

    name: str
    version: str
    decode: DecodeFrame
    encode: Callable[[ApprovalAnswer], Any] = lambda answer: None
    encode_all: Callable[[Sequence[ApprovalAnswer]], Any] | None = None
    find_run_id: Callable[[str], str] = lambda text: ""
    find_number: Callable[[str], int | tuple[str, int] | None] = lambda text: None
    find_piece: Callable[[str], tuple[InputPiece, int] | None] = lambda text: None
    body_is_stream: bool = True
    gated: bool = False
