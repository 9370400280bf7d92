"""Facts about the input of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class InputStarted:
    """The agent began to write a call's input. `per_step`: later steps may reuse the call id (AI SDK).

    `reusable`: later messages may reuse the call id (AG-UI, TanStack); `message_id` is the call's, if the wire has one.
    """

    type: ClassVar[str] = "input-started"
    call_id: str
    tool: str
    at: float = 0.0
    title: str = ""
    source: str = ""
    kind: str = ""
    lane: str = ""
    parent_call: str = ""
    per_step: bool = False
    provider_executed: bool = False
    chunked: bool = False  # opened by an InputChunk: chunks of the lane without an id continue it
    dynamic: bool = False  # the tool's schema is known at run time only (AI SDK)
    reusable: bool = False
    message_id: str = ""
    resumes: bool = False  # chunks of other calls came between: the text continues
    renews: bool = False  # it begins each call of its wire: after an end it is another call (native)


@dataclass(frozen=True, slots=True)
class InputDelta:
    """A piece of the streamed input."""

    type: ClassVar[str] = "input-delta"
    call_id: str
    text: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class InputChunk:
    """Start, piece and continuation in one (AG-UI TOOL_CALL_CHUNK); split by the router, never logged.

    Without `call_id` it continues the open chunked call. Other facts of the lane complete that call if its text is
    whole; its result and facts of the run complete it in any case.
    """

    type: ClassVar[str] = "input-chunk"
    call_id: str = ""
    tool: str = ""
    text: str = ""
    lane: str = ""
    parent_call: str = ""
    message_id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class InputReady:
    """The input is complete. Without `has_input`, the input is the streamed text."""

    type: ClassVar[str] = "input-ready"
    call_id: str
    tool: str = ""
    input: Any = None
    has_input: bool = False
    at: float = 0.0
    attempt: int = 1
    title: str = ""
    source: str = ""
    kind: str = ""
    lane: str = ""
    parent_call: str = ""
    per_step: bool = False
    provider_executed: bool = False
    again: bool = False  # the same call again, after its run was lost
    report: bool = False  # the wire repeats a call that it announced before: never starts another call while it runs
    asks: bool = False  # the wire asks before each call (hooks): another one begins while an earlier one runs
    note: str = ""  # what the agent says about the call when it asks for it
    described: bool = False  # only what the wire shows of a call (see `tool_results`), until its input comes
    past: bool = False  # a list of messages shows the call: one that is known stays as it is, and it is not decided
    alias: str = ""  # the id under which the wire continues the call (hosted tools, after their approval)
    folder: str = ""  # in which the call works; "" is the run's root, "?" is unknown
    shown_blocks: Any = None  # what its agent shows of it next to the input, such as a difference


@dataclass(frozen=True, slots=True)
class InputInvalid:
    """The input was invalid and the tool did not run; a terminal error."""

    type: ClassVar[str] = "input-invalid"
    call_id: str
    tool: str = ""
    input: Any = None
    message: str = ""
    code: str = "invalid_input"
    at: float = 0.0
    per_step: bool = False
    dynamic: bool = False  # if the call did not start as dynamic, the tool does not exist (AI SDK)


@dataclass(frozen=True, slots=True)
class InputRepaired:
    """An invalid tool name or input was repaired before the call ran; the input is complete."""

    type: ClassVar[str] = "input-repaired"
    call_id: str
    tool: str = ""
    input: Any = None
    original: Any = None
    method: str = ""
    kind: str = ""
    at: float = 0.0
    again: bool = False  # a change by a plugin, which may follow a repair


InputFact: TypeAlias = InputStarted | InputDelta | InputReady | InputInvalid | InputRepaired
InputPiece: TypeAlias = tuple[str, str]  # call id and text of an InputDelta that is not built yet
