"""Recorded bodies, played through splitter, adapter and board like the transport does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolcards.adapters import ADAPTERS
from toolcards.adapters.sse import EventSplitter, LineSplitter
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.core.runs.run_state import RunState

TRACES = Path(__file__).parents[1] / "traces"
MANIFEST = json.loads((TRACES / "manifest.json").read_text())


class Player:
    """A run that is received: a board, and the recorded facts."""

    def __init__(self, protocol: str) -> None:
        self.adapter = ADAPTERS[protocol]
        self.board = RunState()
        self.log: list[tuple[int, f.AnyFact]] = []
        self.skipped_kinds: list[str] = []  # kinds
        self.states_by_call: dict[str, list[str]] = {}

    def take(self, fact: f.AnyFact) -> None:
        for ordinal, routed_fact in self.board.route(fact):
            self.log.append((ordinal, routed_fact))
            card, _ = self.board.record(ordinal, routed_fact, len(self.log))
            if card is not None and card.state and self.states_by_call.setdefault(card.call_id, [""])[-1] != card.state:
                self.states_by_call[card.call_id].append(str(card.state))

    def frame(self, text: str) -> None:
        facts = self.adapter.decode(text)
        if isinstance(facts, SkippedFrame):
            self.skipped_kinds.append(facts.kind)
            return
        for fact in facts:
            self.take(fact)

    def frames(self, *frames: dict[str, Any] | str) -> Player:
        for frame in frames:
            self.frame(frame if isinstance(frame, str) else json.dumps(frame))
        return self

    def body(self, texts: Iterable[str]) -> None:
        """One HTTP body: at its end a run that did not end was broken off, if the protocol streams its bodies."""
        for text in texts:
            self.frame(text)
        if self.adapter.body_is_stream and not self.board.context.ended:
            self.take(f.RunEnded(outcome="error" if self.board.context.error else "truncated"))

    def states(self, call_id: str) -> list[str]:
        """The states that the call went through, in order."""
        return self.states_by_call[call_id][1:]


def texts_of(path: Path, piece: int = 4096) -> Iterator[str]:
    """The frames of a recorded body, fed in pieces."""
    splitter = EventSplitter() if path.suffix == ".sse" else LineSplitter()
    data = path.read_bytes()
    for start in range(0, len(data), piece):
        yield from splitter.feed(data[start : start + piece])
    yield from splitter.end()


def bodies() -> Iterator[tuple[str, str, str, list[Path], dict[str, Any]]]:
    """Every recorded scenario: set, name, protocol, its bodies in order, what the manifest says.

    A newline-delimited body is a recording of its own, of the first turn.
    """
    for name, recorded in MANIFEST["sets"].items():
        for scenario, value in recorded["scenarios"].items():
            paths = [TRACES / name / file for file in value["files"]]
            turns = [path for path in paths if path.suffix in {".sse", ".jsonl"}]
            yield name, scenario, recorded["protocol"], turns, value
            for path in paths:
                if path.suffix == ".ndjson":
                    yield name, f"{scenario} (ndjson)", recorded["protocol"], [path], value.get("ndjson", value)
