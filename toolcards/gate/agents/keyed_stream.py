"""The frames of a body with an idempotency key: skip those that an earlier request applied, and count the others.

The receipt advances in the transaction that applies the frames, so it is always exact.
"""

from __future__ import annotations

from typing import Any

from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import InputPiece
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.core.runs.sequence_set import SequenceNumber
from toolcards.gate.agents.idempotency import HeldKey
from toolcards.gate.agents.ingest import Stream
from toolcards.gate.agents.stream_queue import CommitReport
from toolcards.gate.refusals import KeyReuse
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Source


class KeyedStream(Stream):
    """A stream that continues where an earlier one with the same key stopped.

    Push every frame of the body in order, and mark each in the key first.
    """

    def __init__(self, key: HeldKey, source: Source, run: str, **options: Any) -> None:
        super().__init__(source, run, **options)
        self._key = key
        self._frames_to_skip = key.frames  # applied by earlier requests and not yet pushed again
        self._partial_facts = key.facts_left  # facts left of the next frame, if an earlier request applied a part
        # The receipt's state:
        self._frames, self._facts_left, self._digest = key.frames, key.facts_left, key.digest
        self._charged_size = key.charged_size  # bytes of the body, as of this commit
        self._has_undecided = not key.untouched  # calls of an earlier request may still wait for their decision
        for part in key.parts:
            self.touched_calls.update(part.get("touched", ()))

    @property
    def earlier_report(self) -> CommitReport:
        """The report of what earlier requests committed of this body."""
        parts = self._key.parts
        decisions = [decision for part in parts for decision in part.get("decisions", ())]
        approvals = [approval for part in parts for approval in part.get("asked", ())]
        refusal_count = sum(part.get("refused", 0) for part in parts)
        faults = [call for part in parts for call in part.get("faults", ())]
        return CommitReport(0, self._key.frames, decisions, approvals, refusal_count, faults)

    # ------------------------------------------------------------ on the event loop

    def push(self, content: list[Any] | InputPiece | SkippedFrame, number: SequenceNumber = 0) -> None:
        """Queue one frame, or skip what an earlier request applied of it."""
        if self._frames_to_skip:
            mark = self._key.marks.popleft()
            self._frames_to_skip -= 1
            if not self._frames_to_skip and self._partial_facts is None:
                self._compare(mark)
            return
        if self._partial_facts is not None:
            facts_left, self._partial_facts = self._partial_facts, None
            self._compare(self._key.marks[0])
            if isinstance(content, list):  # a different type means a different body
                content = content[len(content) - facts_left :]
        super().push(content, number)

    def check_complete(self) -> None:
        """Check that the body had all frames applied before; raises KeyReuse."""
        if self.error is None and (self._frames_to_skip or self._partial_facts is not None):
            self.error = KeyReuse("The body is shorter than what was applied before under this Idempotency-Key.")
        if isinstance(self.error, KeyReuse):
            raise self.error

    def _compare(self, mark: str) -> None:
        if mark != self._digest:
            self.error = KeyReuse("The body differs from what was applied before under this Idempotency-Key.")

    # ------------------------------------------------------------ on the writer's thread

    def _apply_plugin_results(self, tx: Transaction, memory: RunMemory) -> None:
        super()._apply_plugin_results(tx, memory)
        if self._has_undecided:  # a process ended while plugins were consulted about them
            for ordinal in sorted(self.touched_calls):
                card = memory.board.cards.get(ordinal)
                if card is not None and self._needs_decision(card):
                    self._evaluate(tx, memory, card, tx.now)

    def _needs_decision(self, card: Card) -> bool:
        is_open = card.has_input and not (card.hard or card.soft or card.removed)
        return is_open and card.decision is None and (self.mode == "gate" or card.gated)

    def _record_batch(self, tx: Transaction, memory: RunMemory) -> None:
        super()._record_batch(tx, memory)
        if self._batch or self._decisions:
            frames, facts_left, digest = self._get_progress()
            self._charged_size = self._key.charged_size  # read once: the event loop charges more meanwhile
            self._key.count(
                tx, self._build_part(), frames=frames, facts_left=facts_left, digest=digest, run=self.run_name,
                charged=self._charged_size,
            )  # fmt: skip

    def _get_progress(self) -> tuple[int, int | None, str]:
        """Return the receipt's state after this commit: complete frames, facts left of the next one, and the digest."""
        if not self._batch:
            return self._frames, self._facts_left, self._digest
        complete, facts_left = len(self._batch) - len(self._deferred), None
        if self._deferred:
            content: Any = self._deferred[0][0]
            if self._deferred[0] is not self._batch[complete]:  # some of its facts were recorded, these were not
                facts_left = len(content)
            elif not complete:  # nothing was recorded now
                facts_left = self._facts_left
        last = complete - (facts_left is None)
        return self._frames + complete, facts_left, self._key.marks[last] if last >= 0 else self._digest

    def _build_part(self) -> dict[str, Any]:
        part = {
            "touched": sorted(self._batch_calls - self.touched_calls), "decisions": self._decisions,
            "asked": self._approvals, "refused": self._refused_frames, "faults": self._faults,
        }  # fmt: skip
        return {name: value for name, value in part.items() if value}

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        if error is None and self._is_applied:
            frames, self._facts_left, self._digest = self._get_progress()
            for _ in range(frames - self._frames):
                self._key.marks.popleft()
            self._frames, self._has_undecided = frames, False
            self._key.recorded_size = self._charged_size
        super().finish(error)
