"""Vercel AI SDK UI message stream: versions 5, 6 and 7, and Pydantic AI's dialect.

Source: `ai` 7.0.173 and 6.0.326 (npm), `VercelAIAdapter` of `pydantic-ai-slim` 2.68.0 (PyPI).
Real producers deviate from the schema: a `None` result comes without `output`, an error text may be empty, version 6
reports an invalid call twice, Pydantic AI closes the calls of a cancelled run as results.
Frames of the WebSocket transport (`{type: "chunk", requestId, sequence, chunk}`) are unwrapped and applied once: the
transport drops a repeated number of a request. A stream resumed over HTTP has no numbers and is replayed in full.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from toolcards.adapters import strict
from toolcards.adapters.ai_sdk_chunks import (
    AbortChunk,
    ApprovalRequestChunk,
    ApprovalResponseChunk,
    Chunk,
    ErrorChunk,
    FinishChunk,
    IgnoredChunk,
    InputAvailableChunk,
    InputDeltaChunk,
    InputErrorChunk,
    InputStartChunk,
    OutputAvailableChunk,
    OutputDeniedChunk,
    OutputErrorChunk,
    ReasoningDeltaChunk,
    StartChunk,
    StepEndChunk,
    StepResetChunk,
    StepStartChunk,
    TextDeltaChunk,
)
from toolcards.adapters.base import Adapter, ApprovalAnswer, Facts
from toolcards.adapters.frames import Decoder
from toolcards.core.runs.run_context import SkippedFrame


class WrappedChunk(Chunk):
    """A chunk as the WebSocket transport wraps it."""

    type: Literal["chunk"]
    request_id: str
    sequence: int
    chunk: dict[str, Any]

    def to_facts(self) -> Facts | SkippedFrame:
        return DECODER.decode_value(self.chunk)


Chunks = Annotated[
    InputDeltaChunk | TextDeltaChunk | ReasoningDeltaChunk | InputStartChunk | InputAvailableChunk | InputErrorChunk
    | ApprovalRequestChunk | ApprovalResponseChunk | OutputAvailableChunk | OutputErrorChunk | OutputDeniedChunk
    | StartChunk | StepStartChunk | StepEndChunk | StepResetChunk | FinishChunk | AbortChunk | ErrorChunk
    | IgnoredChunk | WrappedChunk,
    Field(discriminator="type"),
]  # fmt: skip


def encode(answer: ApprovalAnswer) -> dict[str, Any] | None:
    """Return the `tool-approval-response` for the next request; None for edits."""
    if answer.edited_input is not None:
        return None
    reply = {"type": "tool-approval-response", "approvalId": answer.source_id, "approved": answer.approved}
    if answer.reason:
        reply["reason"] = answer.reason
    if isinstance(answer.reply_to, dict) and "signature" in answer.reply_to:
        reply["signature"] = answer.reply_to["signature"]
    return reply


def find_number(text: str) -> tuple[str, int] | None:
    """Return request id and sequence number of a wrapped chunk."""
    if '"sequence"' not in text:
        return None
    frame = strict.read_members(text)
    request, number = frame.get("requestId"), frame.get("sequence")
    if frame.get("type") != "chunk" or not isinstance(request, str) or not isinstance(number, int):
        return None
    return request, number


DECODER = Decoder(Chunks, quiet_prefix="data-")
decode = DECODER.decode  # the bound method: a tenth faster than calling the object
ADAPTER = Adapter("ai-sdk", "7.0.173", decode, encode, find_number=find_number)
