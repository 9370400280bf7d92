"""The identity of a decided call: tool, server and input, which later facts cannot change.

Policy and people decide on one value. From the decision until the call ends, a fact that names another tool,
server or input contradicts it; the same value in another spelling does not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toolcards.client.common.json_text import is_same_json, parse
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import UNKNOWN_TOOL, Card, ToolCallState
from toolcards.core.text.json_prefix import is_json_prefix

_CHECKED_LENGTH = 16_384  # characters of streamed text; a longer text is compared when it is complete


def is_frozen(card: Card) -> bool:
    """Return whether the call was decided and has not ended finally."""
    return card.decision is not None and not card.hard and not card.removed


def contradicts(card: Card, fact: Any) -> bool:
    """Return whether a fact names another tool, server or input."""
    if not _names_tool(card, fact):
        return True
    if isinstance(fact, f.InputStarted):
        return False
    if isinstance(fact, f.InputInvalid):
        return fact.input is not None and not is_input(card, fact.input)
    if isinstance(fact, f.InputRepaired) or fact.has_input:
        return not is_input(card, fact.input)
    return bool(card.segment) and not _is_written(card, str(card.segment))


def is_nested_or_reused(card: Card, fact: Any) -> bool:
    """Return whether an undecided call's id now names another call.

    That is another tool, another input after the end of the call or its turn, or one that is begun while the call runs
    (a tool that calls itself). Repairs and reports of the same call are not.
    """
    if card.state is None or card.removed or isinstance(fact, (f.InputInvalid, f.InputRepaired)):
        return False
    is_start = isinstance(fact, f.InputStarted)
    if card.state is ToolCallState.INPUT_STREAMING and not is_start:
        return False  # the producer may repair the name and the input that it writes
    if card.tool.name != UNKNOWN_TOOL and fact.tool not in {"", card.tool.name, card.original_tool}:
        return True
    has_ended = card.hard or card.soft or card.awaiting_client
    is_begun_again = card.segment is not None and card.state is ToolCallState.INPUT_AVAILABLE
    if is_start or not (has_ended or is_begun_again) or not card.has_input:
        return False
    if fact.has_input:
        return not is_input(card, fact.input)
    return bool(card.segment) and not _is_written(card, str(card.segment))


def delta_contradicts(card: Card, text: str) -> bool:
    """Return whether late text cannot spell the decided input."""
    late = late_text(card) + text
    if len(late) > _CHECKED_LENGTH:
        return False
    return not any(_can_become(value, late) for value in _list_inputs(card))


def late_text(card: Card) -> str:
    """Return the text that late deltas of a decided call continue."""
    if card.segment is not None:
        return str(card.segment)
    return str(card.text)


def is_input(card: Card, value: Any) -> bool:
    """Return whether the value is the decided input, also as JSON text."""
    for decided_input in _list_inputs(card):
        if is_same_json(decided_input, value):
            return True
        if isinstance(value, str) and not isinstance(decided_input, str):
            is_json, parsed_value = parse(value)
            if is_json and is_same_json(decided_input, parsed_value):
                return True
    return False


def extends(card: Card, value: Any) -> bool:
    """Return whether the value is the decided input with more members."""
    decided_input = card.shown_input
    if not isinstance(decided_input, dict) or not isinstance(value, dict):
        return False
    return all(name in value and is_same_json(value[name], member) for name, member in decided_input.items())


def _names_tool(card: Card, fact: Any) -> bool:
    if fact.tool not in {"", card.tool.name, card.original_tool}:
        return False
    server = getattr(fact, "source", "")
    return not server or not card.tool.source or server == card.tool.source


def _list_inputs(card: Card) -> list[Any]:
    """Return every value that counts as this call's input."""
    earlier = (value for value in (card.original_input, card.first_input) if value is not None)
    return [card.shown_input, *earlier]


def _is_written(card: Card, text: str) -> bool:
    return is_input(card, text) or text in _list_inputs(card)


def _can_become(value: Any, text: str) -> bool:
    return is_json_prefix(text, value) or (isinstance(value, str) and value.startswith(text))


# How a call got or missed its permission, and which refusals of the agent's own reviewer may be tried again.
DAY_SECONDS = 86_400
WORDS = ("allowed", "denied", "refused", "asked")


class Permission(NamedTuple):
    """The word for a call, and the day of the call (days since 1970, UTC)."""

    day: int
    word: str


def find_permission(card: Card) -> Permission | None:
    """Return the permission of a decided call.

    A call that a person was asked about is `asked`, whatever the answer; one that the agent's own reviewer refused is
    `refused`.
    """
    ask, decision = card.approval, card.decision
    if card.removed:
        return None
    if ask is not None and not (ask.automatic or ask.twin):
        word = "asked"
    elif is_refused(card):
        word = "refused"
    elif decision is not None:
        word = "denied" if decision.effect == "deny" else "allowed"
    else:
        return None
    return Permission(int((card.times.available or card.times.started or card.times.finished) // DAY_SECONDS), word)


_HOSTS = frozenset({"Claude Code"})  # report a refusal, and run the same call later without asking their reviewer


def is_refused(card: Card) -> bool:
    """Return whether the reviewer of the agent's program refused the call."""
    actor = card.denied_by
    is_host = actor is not None and actor.kind == "host" and actor.name in _HOSTS
    return card.state is ToolCallState.OUTPUT_DENIED and is_host


def is_retryable(card: Card) -> bool:
    """Return whether a person may let the refused call try again.

    Nothing else denied it, and it is unanswered.
    """
    is_denied_here = card.decision is not None and card.decision.effect == "deny"
    return is_refused(card) and not (card.retry or card.removed or is_denied_here) and card.has_input
