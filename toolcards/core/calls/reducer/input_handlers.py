"""Apply facts about the input to a card: started, streamed, complete, repaired, rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolcards.client.common.json_text import is_same_json, parse
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, EDITED, UNKNOWN_TOOL, Card, CardTool, ToolCallState
from toolcards.core.calls.identity import is_frozen
from toolcards.core.text.text_rope import EMPTY, Rope

S = ToolCallState
GENERIC_ERRORS = {"", "An error occurred."}  # error texts without information; a later one may replace them
_LATE_LIMIT = 16_384  # characters; late pieces of longer inputs are parsed at the next InputReady
_CLOSERS = ("}", "]", '"')


def start_input(card: Card, fact: Any) -> Card:
    """Start the input, by its first fact or piece."""
    if isinstance(fact, f.InputDelta):
        return _append_delta(card, fact)
    return update_identity(card, fact).replace(state=S.INPUT_STREAMING, times=_start_times(card, fact.at))


def complete_input(card: Card, fact: Any) -> Card:
    """Complete the input for the first time."""
    updated_card = update_input(card, fact)
    if updated_card.text and not updated_card.has_input:
        updated_card = updated_card.with_anomaly("unreadable-input", fact.at)
    times = updated_card.times.replace(started=updated_card.times.started or fact.at, available=fact.at)
    return updated_card.replace(state=S.INPUT_AVAILABLE, times=times)


def update_input(card: Card, fact: Any) -> Card:
    """Replace the input by a newer one.

    A repeated input has no visible effect.
    """
    card = _note_shown(card, fact)
    if is_frozen(card):  # the router passes only facts about the decided value
        return card if card.segment is None else card.replace(segment=None)
    if isinstance(fact, f.InputRepaired):
        return _apply_repair(card, fact)
    if card.repair not in {"", BY_SOURCE, EDITED} and _repeats_original(card, fact):
        return card
    after = set_input(_note_renamed_tool(card, update_identity(card, fact)), fact)
    if after is not card and not after.times.available:
        return after.replace(times=after.times.replace(available=fact.at))
    return after


def _note_shown(card: Card, fact: Any) -> Card:
    blocks = getattr(fact, "shown_blocks", None)
    return card if blocks is None else card.replace(shown_blocks=blocks)


def _repeats_original(card: Card, fact: Any) -> bool:
    """Return whether the sender repeats the input from before the repair."""
    is_same_tool = fact.tool in {"", card.tool.name, card.original_tool}
    return is_same_tool and fact.has_input and is_same_json(fact.input, card.original_input)


def fill_missing(card: Card, fact: Any) -> Card:
    """Fill in what is missing after the end (rules 4 and 7)."""
    filled_card: Card = _FILL[type(fact)](card, fact)
    return filled_card


def reopen_input(card: Card, fact: Any) -> Card:
    """Start to rewrite the input in a hidden segment (rule 8)."""
    if card.state is S.INPUT_STREAMING and (not card.text or fact.resumes):
        return card
    return card.replace(segment=EMPTY, resumed=True)


def append_late_text(card: Card, fact: f.InputDelta) -> Card:
    """Append late text to the open segment or an early input."""
    if not fact.text:
        return card
    if is_frozen(card):
        return card.replace(segment=(card.text if card.segment is None else card.segment).plus(fact.text))
    if card.segment is not None:
        return card.replace(segment=card.segment.plus(fact.text))
    if card.has_input:
        return card
    after = card.replace(text=card.text.plus(fact.text))
    if after.text.length <= _LATE_LIMIT and fact.text.rstrip().endswith(_CLOSERS):
        is_json, value = parse(str(after.text))
        if is_json:
            return after.replace(input=value, has_input=True).without_anomaly("unreadable-input")
    return after


def update_identity(card: Card, fact: Any) -> Card:
    """Update the tool, the agent's note and the folder.

    Known values are never cleared, and the first folder counts.
    """
    tool = card.tool
    updated_tool = CardTool(
        fact.tool or tool.name,
        getattr(fact, "kind", "") or tool.kind,
        getattr(fact, "source", "") or tool.source,
        getattr(fact, "title", "") or tool.title,
    )
    is_provider_executed = card.provider_executed or getattr(fact, "provider_executed", False)
    is_dynamic = card.dynamic or (isinstance(fact, f.InputStarted) and fact.dynamic)
    note = getattr(fact, "note", "") or card.agent_note
    folder = card.folder or getattr(fact, "folder", "")
    is_same = is_provider_executed == card.provider_executed and is_dynamic == card.dynamic
    if updated_tool == tool and is_same and (note, folder) == (card.agent_note, card.folder):
        return card
    return card.replace(
        tool=updated_tool, provider_executed=is_provider_executed, dynamic=is_dynamic, agent_note=note, folder=folder
    )


def _note_renamed_tool(card: Card, updated_card: Card) -> Card:
    """Record a repair if the producer replaced the tool's name."""
    if card.state is not S.INPUT_STREAMING or UNKNOWN_TOOL in (card.tool.name, updated_card.tool.name) or card.repair:
        return updated_card
    if updated_card.tool.name == card.tool.name:
        return updated_card
    return updated_card.replace(original_tool=card.tool.name, repair=BY_SOURCE)


def set_input(card: Card, fact: Any) -> Card:
    """Set the input from the fact or from streamed JSON."""
    text, is_json, value = read_streamed_input(card)
    # some tools take plain text, not JSON
    is_streamed = (is_json and is_same_json(value, fact.input)) or (
        isinstance(fact.input, str) and fact.input == str(text)
    )
    is_cut = card.soft and not is_json  # the connection was lost within the input
    was_changed = fact.has_input and not card.has_input and bool(text) and not is_streamed and not is_cut
    was_rewritten = bool(card.segment)
    if fact.has_input:
        is_json, new_input = True, fact.input
    elif card.has_input and not was_rewritten:
        is_json, new_input = True, card.input
    else:
        new_input = value
    if (card.has_input and is_json and is_same_json(card.input, new_input)) or not (is_json or was_rewritten):
        return card if card.segment is None else card.replace(segment=None)
    after = card.replace(input=new_input if is_json else None, has_input=is_json, text=text, segment=None)
    after = after.without_anomaly("unreadable-input") if is_json else after
    if was_changed:  # the producer changed what the model wrote
        return after.replace(original_input=value if _is_json_value(text, value) else str(text), repair=BY_SOURCE)
    return after


def read_streamed_input(card: Card) -> tuple[Rope, bool, Any]:
    """Return the text, whether it is JSON, and its value.

    The text is the segment, else the joined text if only that is JSON (rule 8).
    """
    if not card.segment:
        return card.text, *(parse(str(card.text)) if card.text.length else (False, None))
    for text in (card.segment, card.text.plus(str(card.segment))):
        is_json, value = parse(str(text))
        if is_json:
            return text, True, value
    return card.segment, False, None


def _is_json_value(text: Rope, value: Any) -> bool:
    return value is not None or str(text).strip() == "null"


def _append_delta(card: Card, fact: f.InputDelta) -> Card:
    if card.segment is not None:
        return append_late_text(card, fact)
    if card.state is None:
        return card.replace(state=S.INPUT_STREAMING, text=card.text.plus(fact.text), times=_start_times(card, fact.at))
    return card.replace(text=card.text.plus(fact.text)) if fact.text else card


def _start_times(card: Card, timestamp: float) -> Any:
    return card.times.replace(started=card.times.started or timestamp)


def _apply_repair(card: Card, fact: f.InputRepaired) -> Card:
    """Apply a repair of name and input; a second repair is an anomaly."""
    if card.repair not in {"", BY_SOURCE} and not fact.again:
        return card.with_anomaly("protocol-violation", fact.at)
    first_input = card.original_input if card.repair else card.shown_input
    original = fact.original if fact.original is not None else first_input
    is_renamed = fact.tool and card.tool.name not in (fact.tool, UNKNOWN_TOOL)
    return update_identity(card, fact).replace(
        input=fact.input, has_input=True, original_input=original, segment=None,
        repair=f"{card.repair}, {fact.method}" if fact.again and card.repair else fact.method or "repaired",
        original_tool=card.original_tool or (card.tool.name if is_renamed else ""),
    )  # fmt: skip


# ---------------------------------------------------------------- after the end


def _fill_input(card: Card, fact: Any) -> Card:
    updated_card = update_identity(card, fact) if card.tool.name == UNKNOWN_TOOL else card
    if updated_card.has_input:
        return updated_card if updated_card.segment is None else updated_card.replace(segment=None)
    return _apply_repair(updated_card, fact) if isinstance(fact, f.InputRepaired) else set_input(updated_card, fact)


def _fill_error(card: Card, fact: Any) -> Card:
    if card.error and card.error.message in GENERIC_ERRORS and fact.message not in GENERIC_ERRORS:
        return card.replace(error=replace(card.error, message=fact.message))
    return card


def _fill_output(card: Card, fact: f.OutputReady) -> Card:
    if card.output in (None, "") and fact.output not in (None, ""):
        return card.replace(output=fact.output)
    return card if is_same_json(card.output, fact.output) else card.with_anomaly("duplicate-terminal", fact.at)


def _fill_denied(card: Card, fact: f.OutputDenied) -> Card:
    return card.replace(denied=fact.reason) if fact.reason and not card.denied else card


_FILL: dict[type, Any] = {
    f.InputReady: _fill_input,
    f.InputRepaired: _fill_input,
    f.InputInvalid: _fill_error,
    f.OutputFailed: _fill_error,
    f.OutputReady: _fill_output,
    f.OutputDenied: _fill_denied,
}
