"""The recorded runs, and how they end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parent / "runs"
TYPING, WORKING = 90, 1_200  # milliseconds before a delta, and before a result

# Frame types of other protocols that come after a pause.
SLOW = {
    "tool-output-available", "tool-output-error", "tool-output-denied", "abort", "TOOL_CALL_RESULT", "RUN_FINISHED",
    "RUN_ERROR", "finish",
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """One recorded run. `ends` names the state of every call at the end; `*` depends on the viewer."""

    file: str
    agent: str
    run: str
    status: str
    ends: dict[str, str]
    protocol: str = "native"
    title: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_gated(self) -> bool:
        """Whether one of its calls waits for a decision."""
        return any("decision" in line for line in self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return frames with the milliseconds before them, and waits for decisions."""
        text = (RUNS / self.file).read_text(encoding="utf-8")
        if self.file.endswith(".jsonl"):
            return [json.loads(line) for line in text.splitlines()[1:]]
        frames = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
        return [{"ms": WORKING if json.loads(f)["type"] in SLOW else TYPING, "text": f} for f in frames]


def _read_native(file: str) -> Recording:
    with (RUNS / file).open(encoding="utf-8") as lines:
        head = json.loads(next(lines))
    expect = head.pop("expect")
    return Recording(file, status=expect["status"], ends=expect["calls"], **head)


def _make_sse(file: str, protocol: str, agent: str, run: str, status: str, **ends: str) -> Recording:
    return Recording(file, agent, run, status, ends, protocol=protocol)


# One list per agent: an agent plays its runs one after another, the agents play at the same time.
AGENTS: list[list[Recording]] = [
    [_read_native("fix-checkout.jsonl")],
    [_read_native("refactor-billing.jsonl")],
    [_read_native("triage-tests.jsonl")],
    [
        _make_sse("ai-sdk-parallel.sse", "ai-sdk", "shop-assistant", "where-is-my-order", "finished",
             call_h1="output-available", call_h2="output-error", call_h3="output-available"),
        _make_sse("ai-sdk-repaired.sse", "ai-sdk", "shop-assistant", "find-a-jacket", "finished",
             call_d2="output-available"),
        _make_sse("ai-sdk-denied.sse", "ai-sdk", "shop-assistant", "refund", "finished", call_g2="output-denied"),
        _make_sse("ai-sdk-aborted.sse", "ai-sdk", "shop-assistant", "yearly-export", "aborted", call_i3="output-error"),
    ],
    [
        _make_sse("ag-ui-steps.sse", "ag-ui", "travel-desk", "trip-to-paris", "finished",
             call_j1="output-available", call_j2="output-available"),
        _make_sse("ag-ui-empty-error.sse", "ag-ui", "travel-desk", "book-a-hotel", "error", call_c1="output-error"),
    ],
]  # fmt: skip
