"""TanStack AI: AG-UI events with extras in `metadata.tanstack`, bare or wrapped as `{id, chunk}`.

Source: `@tanstack/ai` 0.58.0 and `@tanstack/ai-client` 0.33.2 (npm). `ag_ui` reads the extras (failed results, whole
inputs, turns that do not end the run, its interrupts), because AG-UI clients also connect to TanStack's servers.
Results may come before RUN_STARTED, a continuation may repeat START, ARGS and END, and denials are not reported: our
own decision closes that card.
"""

from __future__ import annotations

from toolcards.adapters import ag_ui, strict
from toolcards.adapters.ag_ui import interrupts
from toolcards.adapters.base import MAX_DEPTH, Adapter, Facts
from toolcards.core.runs.run_context import SkippedFrame


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the event's facts, SkippedFrame for an unknown type; raises BadFrame."""
    if '"chunk"' in text:
        frame = strict.loads(text, depth)
        if isinstance(frame, dict) and "type" not in frame and isinstance(frame.get("chunk"), dict):
            return ag_ui.DECODER.decode_value(frame["chunk"])
    return ag_ui.decode(text, depth)


ADAPTER = Adapter("tanstack", "0.58.0", decode, interrupts.encode, interrupts.encode_all, ag_ui.find_run_id)
