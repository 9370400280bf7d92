"""A run's log once more, with its secrets masked for good; what the facts add up to keeps every state.

Streamed pieces are masked joined, since a secret may be cut anywhere: the whole goes into the first piece and
the others become empty. Pure; `gate.retention` does the writing, and refuses where the cards would come out otherwise.
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

# Names by which facts find their card, digests, and words of ours: masking them would change what happened.
_UNMASKED_FIELDS = frozenset({
    "at", "call_id", "id", "source_id", "lane", "scope", "parent_lane", "parent_call", "message_id", "kind",
    "source", "method", "code", "rule", "effect", "state", "how", "outcome", "channel", "opener", "authority",
    "phase", "args_sha256", "schema_sha256", "by",
})  # fmt: skip
_POLICY_FIELDS = frozenset(
    {"terms", "would", "tools"}
)  # policy's words and tools' schemas: names in them are no values
_VALUES = frozenset({"default", "const", "examples", "example", "enum"})  # where a schema holds values


@dataclass
class _Pieces:
    """A text that came in pieces: where they stand in the log, and which of them must not become empty."""

    at: list[int] = field(default_factory=list)
    needed: list[int] = field(default_factory=list)


class LogMasker:
    """Reads a log in its order, then gives it back masked."""

    def __init__(self, redactor: Redactor) -> None:
        self._hide = redactor
        self.before = RunState()
        self._log: list[tuple[int, f.AnyFact]] = []
        self._done: list[_Pieces] = []
        self._text: dict[int, _Pieces] = {}  # ordinal -> pieces that make the card's text
        self._segment: dict[int, _Pieces] = {}  # the same of the input that is written once more
        self._lost: dict[int, _Pieces] = {}  # pieces that came too late to count
        self._said: dict[tuple[str, str], _Pieces] = {}  # lane, channel -> what the agent says

    def read(self, ordinal: int, fact: f.AnyFact, seq: int) -> None:
        """Take in the next fact of the log."""
        before, ended = self.before.cards.get(ordinal), self.before.context.ended
        self._log.append((ordinal, fact))
        self.before.record(ordinal, fact, seq)
        if isinstance(fact, f.InputDelta):
            self._piece(ordinal, before, bool(ended) and not self.before.context.ended)
        elif ordinal:
            self._settled(ordinal, before, self.before.cards[ordinal])
        elif isinstance(fact, f.TextDelta):
            self._said.setdefault((fact.lane, fact.channel), _Pieces()).at.append(len(self._log) - 1)
        elif isinstance(fact, (f.RunStarted, f.MessageStarted, f.StepStarted)):
            self._done += self._said.values()
            self._said = {}

    def masked(self) -> list[f.AnyFact]:
        """Return the facts in their order, without their secrets."""
        told = [fact if _is_piece(fact) else self._whole(fact) for _, fact in self._log]
        for kept in (self._text, self._segment, self._lost, self._said):
            self._done += kept.values()
        for pieces in self._done:
            self._put(told, pieces)
        return told

    # ------------------------------------------------------------ pieces of one text

    def _piece(self, ordinal: int, before: Card | None, woke: bool) -> None:
        """It belongs to the text that grew by it; the run may have come alive by it, so it must not become nothing."""
        kept = self._text
        if before is not None and before.segment is not None:
            kept = self._segment
        elif before is not None and self.before.cards[ordinal].text is before.text:
            kept = self._lost
        pieces = kept.setdefault(ordinal, _Pieces())
        pieces.at.append(len(self._log) - 1)
        if woke:
            pieces.needed.append(len(self._log) - 1)

    def _settled(self, ordinal: int, before: Card | None, after: Card) -> None:
        """The input that was written once more is whole: it stands alone, continues the text, or is dropped."""
        if before is None or before.segment is None or after.segment is before.segment:
            return
        pieces = self._segment.pop(ordinal, _Pieces())
        text, new = str(after.text), str(before.segment)
        if after.segment is not None or (text == str(before.text) and text != new):
            self._done.append(pieces)
        elif text == new or ordinal not in self._text:
            self._done.append(self._text.pop(ordinal, _Pieces()))
            self._text[ordinal] = pieces
        else:
            older = self._text[ordinal]
            self._text[ordinal] = _Pieces(older.at + pieces.at, older.needed + pieces.needed)

    def _put(self, told: list[f.AnyFact], pieces: _Pieces) -> None:
        facts: list[Any] = [self._log[at][1] for at in pieces.at]
        text = "".join(fact.text for fact in facts)
        shown = self._text_of(text)
        if shown == text:
            return
        rest = [at for at in pieces.needed if at != pieces.at[0]]
        cut = max(len(shown) - len(rest), 1)
        for at, fact in zip(pieces.at, facts, strict=True):
            told[at] = replace(fact, text="")
        told[pieces.at[0]] = replace(facts[0], text=shown[:cut])
        for at, letter in zip(rest, shown[cut:], strict=False):
            told[at] = replace(told[at], text=letter)  # type: ignore[arg-type]

    def _text_of(self, text: str) -> str:
        """Mask the text so that, where it is JSON, it is still JSON, of the masked value."""
        shown = self._hide.text(text)
        whole, value = parse(text)
        if not whole:
            return shown
        hidden = self._hide.value(value)
        readable, again = parse(shown)
        if readable and is_same_json(again, hidden):
            return shown
        return json.dumps(hidden, ensure_ascii=False)

    # ------------------------------------------------------------ facts that are whole

    def _whole(self, fact: f.AnyFact) -> f.AnyFact:
        changes: dict[str, Any] = {}
        for each in fields(fact):
            if each.name in _UNMASKED_FIELDS:
                continue
            value = getattr(fact, each.name)
            new = self._words(value) if each.name in _POLICY_FIELDS else self._hide.value(value)
            if new is not value and new != value:
                changes[each.name] = new
        return replace(fact, **changes) if changes else fact

    def _words(self, value: Any, within: str = "") -> Any:
        """Mask texts by their own looks, and the values that a schema gives for a secret property."""
        if isinstance(value, str):
            return self._hide.text(value)
        if isinstance(value, (list, tuple)):
            return [self._words(item, within) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self._hide.value({within: item})[within] if name in _VALUES and classify_name(within) else
            self._words(item, within if name in _VALUES else name) for name, item in value.items()
        }  # fmt: skip


def _is_piece(fact: f.AnyFact) -> bool:
    return isinstance(fact, (f.InputDelta, f.TextDelta))


def find_difference(before: RunState, after: RunState) -> str:
    """Say what would no longer be as it was: states, answers, decisions, times, order; "" where all is."""
    if before.status != after.status:
        return f"the run would be {after.status}, not {before.status}"
    if list(before.cards) != list(after.cards):
        return "the calls would stand in another order"
    for ordinal, card in before.cards.items():
        told = _compare_cards(card, after.cards[ordinal])
        if told:
            return f"call {ordinal}: {told} would change"
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


def fold_facts(log: Iterable[tuple[int, int]], told: Iterable[f.AnyFact]) -> tuple[RunState, list[bool]]:
    """Return the board that the facts add up to, and which were applied; `log` has (ordinal, seq) of each."""
    board, applied = RunState(), []
    for (ordinal, seq), fact in zip(log, told, strict=True):
        applied.append(board.record(ordinal, fact, seq)[1])
    return board, applied
