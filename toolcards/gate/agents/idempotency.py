"""Idempotency keys: a request's body is applied once, however often it breaks off and comes again.

The request that reads a body holds its key under a lease that ends with its process. Each commit of the body's frames
moves the receipt on in the same transaction, and only while the request still holds the key: a process that was paused
while another one took over writes no more.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from toolcards.audit.trail import Act
from toolcards.encryption import Closed
from toolcards.gate.refusals import KeyReuse, RequestRefused, Undecryptable
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Receipt, ReceiptPart, Source

LEASE = 6.0  # seconds after which a key is free again whose holder gave no sign
_END_MARK = b"\xff" * 8  # in place of a frame's length: no frame is that long


class KeyTakenOver(RequestRefused):
    """Another request with the same key goes on with the body."""

    status, code = 409, "in_progress"

    def __init__(self) -> None:
        super().__init__("Another request with this Idempotency-Key continues this body. Repeat the request.")


class HeldKey:
    """An idempotency key that one request holds: how far its body was applied before, and the digest of its frames."""

    def __init__(self, row: Receipt, token: str, parts: list[dict[str, Any]]) -> None:
        self.pk, self.token = row.pk, token
        self.run = row.run  # the run's name, as far as it is known
        self.since = row.created_at.timestamp()
        self.frames, self.facts_left, self.digest = row.frames, row.facts_left, row.digest
        self.parts = parts
        self.marks: deque[str] = deque()  # the digest up to each frame that was read and is not counted yet
        self._hash = hashlib.sha256()

    @property
    def untouched(self) -> bool:
        """Whether no earlier request has applied a frame."""
        return not self.frames and self.facts_left is None

    def mark(self, text: str) -> None:
        """Add the next frame of the body to the digest."""
        raw = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(raw).to_bytes(8, "big"))
        self._hash.update(raw)
        self.marks.append(self._hash.hexdigest())

    def mark_end(self) -> None:
        """Add the end of the body, which counts as a frame of its own."""
        self._hash.update(_END_MARK)
        self.marks.append(self._hash.hexdigest())

    def count(self, tx: Transaction, part: dict[str, Any], **progress: Any) -> None:
        """Move the receipt on with the frames of this transaction; raises TakenOver."""
        self._move(held_until=tx.now + LEASE, **progress)
        if part:
            ReceiptPart.objects.create(receipt_id=self.pk, body=json.dumps(part))

    def renew(self, tx: Transaction) -> None:
        """Keep the key for another lease; raises TakenOver."""
        self._move(held_until=tx.now + LEASE)

    def answer(self, text: str) -> None:
        """Write the answer down and let go of the key; raises TakenOver."""
        self._move(answer=text, holder="", held_until=0)
        ReceiptPart.objects.filter(receipt=self.pk).delete()

    def release(self, *, forget: bool) -> None:
        """Let go of the key if it is still ours; `forget` deletes it, so that any body may come under it."""
        rows = Receipt.objects.filter(pk=self.pk, holder=self.token)
        if forget:
            rows.delete()
        else:
            rows.update(holder="", held_until=0)

    def _move(self, **columns: Any) -> None:
        if not Receipt.objects.filter(pk=self.pk, holder=self.token).update(**columns):
            raise KeyTakenOver


class ReserveKey(Command):
    """The answer is a HeldKey, the text that was answered before, or None while another request holds the key."""

    def __init__(self, source: Source, key: str, request: dict[str, str]) -> None:
        super().__init__()
        self.source, self.key = source, key
        self.request = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        seen = Receipt.objects.filter(source=self.source, key=self.key).first()
        if seen is not None and not self._free(seen, tx.now):  # a look only: others wait here, twenty times a second
            return
        row, made = Receipt.objects.select_for_update().get_or_create(
            source=self.source, key=self.key, defaults={"request": self.request}
        )
        if not made and not self._free(row, tx.now):
            return
        if type(row.answer) is Closed:
            raise Undecryptable("What this request was answered cannot be opened: the key that sealed it is not here.")
        self.answer = row.answer or self._held(row, tx.now)

    def _free(self, row: Receipt, now: float) -> bool:
        """Return whether the key has an answer, or no live holder; raises KeyReuse for another request."""
        if row.request and row.request != self.request:
            raise KeyReuse("This Idempotency-Key was used with another run, protocol, mode, agent or kind of answers.")
        # A lease that ends later than any could was written before the clock was set back: its holder gave no sign.
        return bool(row.answer) or not row.holder or not 0 < row.held_until - now <= LEASE

    def _held(self, row: Receipt, now: float) -> HeldKey:
        row.holder, row.held_until, row.request = secrets.token_hex(16), now + LEASE, self.request
        row.save(update_fields=["holder", "held_until", "request"])
        bodies = list(ReceiptPart.objects.filter(receipt=row).order_by("pk").values_list("body", flat=True))
        if any(type(body) is Closed for body in bodies):
            raise Undecryptable("What is known of this body cannot be opened: the key that sealed it is not here.")
        return HeldKey(row, row.holder, [json.loads(body) for body in bodies])


class UpdateKey(Command):
    """Something done to a held key: `change` is one of its methods, given the transaction."""

    def __init__(self, change: Callable[[Transaction], None]) -> None:
        super().__init__()
        self._change = change

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self._change(tx)


class DeleteReceipts(Command):
    """Delete what was answered before that time, oldest first, at most so many. The answer is how many."""

    def __init__(self, before: datetime, most: int) -> None:
        super().__init__()
        self.before, self.most = before, most

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        # In the order of their numbers, which is nearly that of their times: there is no index to keep for this.
        oldest = Receipt.objects.order_by("pk").values_list("pk", "created_at")[: self.most]
        due = [pk for pk, at in oldest if at < self.before]
        self.answer = len(due)
        if due:
            Receipt.objects.filter(pk__in=due).delete()
            tx.audit_acts.append(Act("retention", "timeout", detail={"deleted": {"receipts": len(due)}}, at=tx.now))


def find_cutoff(moment: datetime) -> datetime | None:
    """Return until when receipts are forgotten, in whole hours so that the trail tells it once an hour; None: never."""
    kept = [days for days in (settings.TOOLCARDS.receipt_days, settings.TOOLCARDS.retention_days) if days]
    before = moment - timedelta(days=min(kept)) if kept else None
    return before.replace(minute=0, second=0, microsecond=0) if before else None
