"""Masks the secrets in a run's log permanently; the cards keep every state.

Streamed pieces are joined before masking, since a secret may be cut anywhere: the masked text goes into the first piece
and the others become empty. Pure; `gate.maintenance.run_masking` writes the log, unless the cards would differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from toolcards.client.common.json_text import is_same_json, parse
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.redaction.redactor import Redactor
from toolcards.core.redaction.sensitive_names import classify_name
from toolcards.core.runs.run_state import RunState

# Names by which facts find their card, digests, and our own words: masking them would change the cards.
_UNMASKED_FIELDS = frozenset({
    "at", "call_id", "id", "source_id", "lane", "scope", "parent_lane", "parent_call", "message_id", "kind",
    "source", "method", "code", "rule", "effect", "state", "how", "outcome", "channel", "opener", "authority",
    "phase", "args_sha256", "schema_sha256", "by",
})  # fmt: skip
_POLICY_FIELDS = frozenset(
    {"terms", "would", "tools"}
)  # words of the policy and schemas of tools: names in them have no values
_VALUES = frozenset({"default", "const", "examples", "example", "enum"})  # where a schema has values


@dataclass
class _Pieces:
    """A text in pieces: their positions in the log, and the pieces that must not become empty."""

    positions: list[int] = field(default_factory=list)
    required: list[int] = field(default_factory=list)


class LogMasker:
    """Reads a log in order, then returns it masked."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.before = RunState()
        self._log: list[tuple[int, f.AnyFact]] = []
        self._complete_texts: list[_Pieces] = []
        self._card_texts: dict[int, _Pieces] = {}  # ordinal -> pieces of the card's text
        self._segments: dict[int, _Pieces] = {}  # the same for an input that is sent again
        self._late_pieces: dict[int, _Pieces] = {}  # pieces that came too late to apply
        self._agent_texts: dict[tuple[str, str], _Pieces] = {}  # lane, channel -> texts of the agent

    def read(self, ordinal: int, fact: f.AnyFact, seq: int) -> None:
        """Add the next fact of the log."""
        before, was_ended = self.before.cards.get(ordinal), self.before.context.ended
        self._log.append((ordinal, fact))
        self.before.record(ordinal, fact, seq)
        if isinstance(fact, f.InputDelta):
            self._add_piece(ordinal, before, bool(was_ended) and not self.before.context.ended)
        elif ordinal:
            self._close_segment(ordinal, before, self.before.cards[ordinal])
        elif isinstance(fact, f.TextDelta):
            self._agent_texts.setdefault((fact.lane, fact.channel), _Pieces()).positions.append(len(self._log) - 1)
        elif isinstance(fact, (f.RunStarted, f.MessageStarted, f.StepStarted)):
            self._complete_texts += self._agent_texts.values()
            self._agent_texts = {}

    def mask_facts(self) -> list[f.AnyFact]:
        """Return the facts in their order, without their secrets."""
        masked_facts = [fact if _is_piece(fact) else self._mask_fact(fact) for _, fact in self._log]
        for pieces_by_key in (self._card_texts, self._segments, self._late_pieces, self._agent_texts):
            self._complete_texts += pieces_by_key.values()
        for pieces in self._complete_texts:
            self._replace_pieces(masked_facts, pieces)
        return masked_facts

    # ------------------------------------------------------------ pieces of one text

    def _add_piece(self, ordinal: int, before: Card | None, resumes_run: bool) -> None:
        """Add a piece to the text that it extends.

        A piece that resumes the run, or that completes the input of a call that has ended, must not become empty.
        """
        after = self.before.cards.get(ordinal)
        pieces_by_ordinal, is_required = self._card_texts, resumes_run
        if before is not None and after is not None:
            is_required |= after.has_input and not before.has_input
            if before.segment is not None:
                pieces_by_ordinal = self._segments
            elif after.text is before.text:
                pieces_by_ordinal = self._late_pieces
        pieces = pieces_by_ordinal.setdefault(ordinal, _Pieces())
        pieces.positions.append(len(self._log) - 1)
        if is_required:
            pieces.required.append(len(self._log) - 1)

    def _close_segment(self, ordinal: int, before: Card | None, after: Card) -> None:
        """Close the segment of a repeated input: it replaces the text, continues it, or is ignored."""
        if before is None or before.segment is None or after.segment is before.segment:
            return
        pieces = self._segments.pop(ordinal, _Pieces())
        text, new = str(after.text), str(before.segment)
        if after.segment is not None or (text == str(before.text) and text != new):
            self._complete_texts.append(pieces)
        elif text == new or ordinal not in self._card_texts:
            self._complete_texts.append(self._card_texts.pop(ordinal, _Pieces()))
            self._card_texts[ordinal] = pieces
        else:
            older = self._card_texts[ordinal]
            self._card_texts[ordinal] = _Pieces(older.positions + pieces.positions, older.required + pieces.required)

    def _replace_pieces(self, masked_facts: list[f.AnyFact], pieces: _Pieces) -> None:
        facts: list[Any] = [self._log[position][1] for position in pieces.positions]
        text = "".join(fact.text for fact in facts)
        masked_text = self._mask_text(text)
        if masked_text == text:
            return
        # A text without letters counts as empty, also for an error that follows it.
        first = next(position for position, fact in zip(pieces.positions, facts, strict=True) if fact.text)
        other_positions = [position for position in pieces.required if position > first]
        if other_positions:
            masked_text = masked_text.rstrip()  # the last letter may complete a JSON value; a blank does not
        cut = max(len(masked_text) - len(other_positions), 1)
        for position, fact in zip(pieces.positions, facts, strict=True):
            masked_facts[position] = replace(fact, text=masked_text[:cut] if position == first else "")
        for position, letter in zip(other_positions, masked_text[cut:], strict=False):
            masked_facts[position] = replace(masked_facts[position], text=letter)  # type: ignore[arg-type]

    def _mask_text(self, text: str) -> str:
        """Mask the text; JSON stays JSON, of the masked value."""
        masked_text = self._redactor.text(text)
        is_complete, value = parse(text)
        if not is_complete:
            return masked_text
        hidden = self._redactor.value(value)
        readable, parsed_again = parse(masked_text)
        if readable and is_same_json(parsed_again, hidden):
            return masked_text
        return json.dumps(hidden, ensure_ascii=False)

    # ------------------------------------------------------------ complete facts

    def _mask_fact(self, fact: f.AnyFact) -> f.AnyFact:
        changes: dict[str, Any] = {}
        for item in fields(fact):
            if item.name in _UNMASKED_FIELDS:
                continue
            value = getattr(fact, item.name)
            new = self._mask_words(value) if item.name in _POLICY_FIELDS else self._redactor.value(value)
            if new is not value and new != value:
                changes[item.name] = new
        return replace(fact, **changes) if changes else fact

    def _mask_words(self, value: Any, parent: str = "") -> Any:
        """Mask texts by their form, and the values that a schema has for a secret property."""
        if isinstance(value, str):
            return self._redactor.text(value)
        if isinstance(value, (list, tuple)):
            return [self._mask_words(item, parent) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self._redactor.value({parent: item})[parent] if name in _VALUES and classify_name(parent) else
            self._mask_words(item, parent if name in _VALUES else name) for name, item in value.items()
        }  # fmt: skip


def _is_piece(fact: f.AnyFact) -> bool:
    return isinstance(fact, (f.InputDelta, f.TextDelta))


def find_difference(before: RunState, after: RunState) -> str:
    """Return the first difference between two run states, or "".

    It compares states, answers, decisions, times and order.
    """
    if before.status != after.status:
        return f"the run would be {after.status}, not {before.status}"
    if list(before.cards) != list(after.cards):
        return "the order of the calls would change"
    for ordinal, card in before.cards.items():
        field_name = _compare_cards(card, after.cards[ordinal])
        if field_name:
            return f"call {ordinal}: {field_name} would change"
    return ""


_EQUAL_FIELDS = (
    "call_id", "state", "soft", "preliminary", "cause", "removed", "has_output", "attempt", "permit", "step", "times",
)  # fmt: skip
_APPROVAL_FIELDS = (
    "id", "source_id", "state", "opener", "automatic", "requested_at", "expires_at", "decided_at", "by", "args_sha256",
)  # fmt: skip
_DECISION_FIELDS = ("effect", "code", "rule", "version", "by", "args_sha256", "schema_sha256", "known", "changed")


def _compare_cards(card: Card, after: Card) -> str:
    pairs: tuple[tuple[tuple[str, ...], Any, Any], ...] = (
        (_EQUAL_FIELDS, card, after),
        (_APPROVAL_FIELDS, card.approval, after.approval),
        (_DECISION_FIELDS, card.decision, after.decision),
    )
    for names, old, new in pairs:
        if (old is None) != (new is None):
            return "its approval or decision"
        if old is not None:
            for name in names:
                if getattr(old, name) != getattr(new, name):
                    return name
    return ""


def fold_facts(log: Iterable[tuple[int, int]], facts: Iterable[f.AnyFact]) -> tuple[RunState, list[bool]]:
    """Return the run state after these facts, and which were applied.

    `log` has the (ordinal, seq) of each fact.
    """
    state, applied_facts = RunState(), []
    for (ordinal, seq), fact in zip(log, facts, strict=True):
        applied_facts.append(state.record(ordinal, fact, seq)[1])
    return state, applied_facts
