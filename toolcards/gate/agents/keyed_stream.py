"""The frames of a body with an Idempotency-Key: those that an earlier try applied are passed over, the others counted.

The receipt moves on in the transaction that applies the frames, so what counts as applied is exactly what is.
"""

from __future__ import annotations

from typing import Any

from toolcards.core.calls.facts import InputPiece
from toolcards.core.runs.sequence_set import SequenceNumber
from toolcards.core.runs.skipped_frames import SkippedFrame
from toolcards.gate.agents.idempotency import HeldKey
from toolcards.gate.agents.ingest import Committed, Stream
from toolcards.gate.refusals import KeyReuse
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Source


class KeyedStream(Stream):
    """A stream that continues where an earlier one under the same key broke off.

    Every frame of the body is pushed, in order, each marked in the key before.
    """

    def __init__(self, key: HeldKey, source: Source, run: str, **options: Any) -> None:
        super().__init__(source, run, **options)
        self._key = key
        self._known = key.frames  # frames that an earlier try applied and this one has not read yet
        self._begun = key.facts_left  # of the frame after them, if an earlier try applied a part of it: facts left
        self._counted, self._left, self._digest = key.frames, key.facts_left, key.digest  # as the receipt has it
        self._undecided = not key.untouched  # calls of an earlier try may wait for their decision
        for part in key.parts:
            self.touched.update(part.get("touched", ()))

    @property
    def earlier(self) -> Committed:
        """What earlier tries of this body committed."""
        parts = self._key.parts
        decisions = [decision for part in parts for decision in part.get("decisions", ())]
        asked = [question for part in parts for question in part.get("asked", ())]
        return Committed(0, self._key.frames, decisions, asked, sum(part.get("refused", 0) for part in parts))

    # ------------------------------------------------------------ on the event loop

    def push(self, said: list[Any] | InputPiece | SkippedFrame, number: SequenceNumber = 0) -> None:
        """Take in one frame, or pass over what an earlier try applied of it."""
        if self._known:
            mark = self._key.marks.popleft()
            self._known -= 1
            if not self._known and self._begun is None:
                self._compare(mark)
            return
        if self._begun is not None:
            left, self._begun = self._begun, None
            self._compare(self._key.marks[0])
            if isinstance(said, list):  # another kind of frame is another body
                said = said[len(said) - left :]
        super().push(said, number)

    def check_complete(self) -> None:
        """Check that the body, now read to its end, holds all frames applied before; raises KeyReuse."""
        if self.error is None and (self._known or self._begun is not None):
            self.error = KeyReuse("The body is shorter than what was applied before under this Idempotency-Key.")
        if isinstance(self.error, KeyReuse):
            raise self.error

    def _compare(self, mark: str) -> None:
        if mark != self._digest:
            self.error = KeyReuse("The body differs from what was applied before under this Idempotency-Key.")

    # ------------------------------------------------------------ on the writer's thread

    def _heard_of(self, tx: Transaction, memory: RunMemory) -> None:
        super()._heard_of(tx, memory)
        if self._undecided:  # a process ended while plug-ins were asked about them
            for ordinal in sorted(self.touched):
                card = memory.board.cards.get(ordinal)
                open_call = card is not None and card.has_input and not (card.hard or card.soft or card.removed)
                if card is not None and open_call and card.decision is None and (self.mode == "gate" or card.gated):
                    self._judge(tx, memory, card, tx.now)

    def _tell_all(self, tx: Transaction, memory: RunMemory) -> None:
        super()._tell_all(tx, memory)
        if self._taken or self._decisions:
            counted, left, digest = self._progress()
            self._key.count(tx, self._part(), frames=counted, facts_left=left, digest=digest, run=self.run_name)

    def _progress(self) -> tuple[int, int | None, str]:
        """Return how far the receipt is after this commit: whole frames, facts left of the next one, and the digest."""
        if not self._taken:
            return self._counted, self._left, self._digest
        done, left = len(self._taken) - len(self._rest), None
        if self._rest:
            waits = self._rest[0] is self._taken[done]  # as it was taken: nothing of it was told now
            left = self._left if waits else len(self._rest[0][0])
        last = done - (left is None)
        return self._counted + done, left, self._key.marks[last] if last >= 0 else self._digest

    def _part(self) -> dict[str, Any]:
        part = {
            "touched": sorted(self._touching - self.touched), "decisions": self._decisions, "asked": self._asked,
            "refused": self._refused,
        }  # fmt: skip
        return {name: value for name, value in part.items() if value}

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        if error is None and self._applied:
            counted, self._left, self._digest = self._progress()
            for _ in range(counted - self._counted):
                self._key.marks.popleft()
            self._counted, self._undecided = counted, False
        super().finish(error)
