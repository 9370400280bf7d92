"""Idempotency keys: a request's body is applied exactly once, even if the request is interrupted and repeated.

The request that reads a body holds its key under a lease. Each commit of the body's frames advances the receipt in the
same transaction, and only while the request still holds the key: a paused process cannot write after another one has
taken over its key.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from toolcards.audit.trail import Act
from toolcards.encryption import UnreadableText
from toolcards.gate.refusals import KeyReuse, RequestRefused, Undecryptable
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Receipt, ReceiptPart, Source

LEASE = 6.0  # seconds without a sign of its holder after which a key is free
_END_MARK = b"\xff" * 8  # instead of a frame's length; no frame is that long


class KeyTakenOver(RequestRefused):
    """Another request with the same key continues the body."""

    status, code = 409, "in_progress"

    def __init__(self) -> None:
        super().__init__("Another request with this Idempotency-Key continues this body. Repeat the request.")


class BodyDigest:
    """The digest of a body's frames so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, text: str) -> str:
        """Add the next frame; return the digest."""
        raw = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(raw).to_bytes(8, "big"))
        self._hash.update(raw)
        return self.get()

    def add_end(self) -> str:
        """Add the end of the body; return the digest."""
        self._hash.update(_END_MARK)
        return self.get()

    def get(self) -> str:
        """Return the digest as hexadecimal digits."""
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to a body that was applied before, and the digest of that body."""

    text: str
    digest: str


class HeldKey:
    """An idempotency key held by a request: how much of its body is applied, and the digest of its frames."""

    def __init__(self, row: Receipt, token: str, parts: list[dict[str, Any]]) -> None:
        self.pk, self.token = row.pk, token
        self.run = row.run  # the run's name, "" if unknown
        self.created_at = row.created_at.timestamp()
        self.frames, self.facts_left, self.digest = row.frames, row.facts_left, row.digest
        self.parts = parts
        self.marks: deque[str] = deque()  # the digest after each frame that was read but not counted
        self.charged_size = self.recorded_size = row.charged  # bytes of the body; recorded with what is committed
        self._digest = BodyDigest()

    @property
    def untouched(self) -> bool:
        """Return whether no earlier request has applied a frame."""
        return not self.frames and self.facts_left is None

    def mark(self, text: str) -> None:
        """Add the next frame of the body to the digest."""
        self.marks.append(self._digest.add(text))

    def mark_end(self) -> None:
        """Add the end of the body to the digest."""
        self.marks.append(self._digest.add_end())

    def count(self, tx: Transaction, part: dict[str, Any], **progress: Any) -> None:
        """Advance the receipt with the frames of this transaction; raises KeyTakenOver."""
        self._update(held_until=tx.now + LEASE, **progress)
        if part:
            ReceiptPart.objects.create(receipt_id=self.pk, body=json.dumps(part))

    def renew(self, tx: Transaction) -> None:
        """Keep the key for another lease; raises KeyTakenOver."""
        self._update(held_until=tx.now + LEASE)

    def answer(self, text: str) -> None:
        """Store the answer and release the key; raises KeyTakenOver."""
        self._update(answer=text, digest=self._digest.get(), holder="", held_until=0)
        ReceiptPart.objects.filter(receipt=self.pk).delete()

    def release(self, *, forget: bool) -> None:
        """Release the key if this request still holds it.

        `forget` deletes it, so that it accepts any body.
        """
        rows = Receipt.objects.filter(pk=self.pk, holder=self.token)
        if forget:
            rows.delete()
        else:
            rows.update(holder="", held_until=0)

    def _update(self, **columns: Any) -> None:
        if not Receipt.objects.filter(pk=self.pk, holder=self.token).update(**columns):
            raise KeyTakenOver


class ReserveKey(Command):
    """Reserve a key. The answer is a HeldKey, a StoredAnswer, or None while another request holds the key."""

    def __init__(self, source: Source, key: str, request: dict[str, str]) -> None:
        super().__init__()
        self.source, self.key = source, key
        self.request = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        receipt = Receipt.objects.filter(source=self.source, key=self.key).first()
        if receipt is not None and not self._is_free(
            receipt, tx.now
        ):  # read only: waiting requests come here twenty times a second
            return
        row, is_new = Receipt.objects.select_for_update().get_or_create(
            source=self.source, key=self.key, defaults={"request": self.request}
        )
        if not is_new and not self._is_free(row, tx.now):
            return
        if type(row.answer) is UnreadableText:
            raise Undecryptable("The stored answer cannot be decrypted: its encryption key is missing.")
        self.answer = StoredAnswer(row.answer, row.digest) if row.answer else self._hold(row, tx.now)

    def _is_free(self, row: Receipt, now: float) -> bool:
        """Return whether the key has an answer or no live holder; raises KeyReuse for a different request."""
        if row.request and row.request != self.request:
            raise KeyReuse("This Idempotency-Key was used with another run, protocol, mode, agent or kind of answers.")
        # A lease that ends too far in the future was written before the clock was set back, and does not count.
        return bool(row.answer) or not row.holder or not 0 < row.held_until - now <= LEASE

    def _hold(self, row: Receipt, now: float) -> HeldKey:
        row.holder, row.held_until, row.request = secrets.token_hex(16), now + LEASE, self.request
        row.save(update_fields=["holder", "held_until", "request"])
        bodies = list(ReceiptPart.objects.filter(receipt=row).order_by("pk").values_list("body", flat=True))
        if any(type(body) is UnreadableText for body in bodies):
            raise Undecryptable("The stored parts of this body cannot be decrypted: their encryption key is missing.")
        return HeldKey(row, row.holder, [json.loads(body) for body in bodies])


class UpdateKey(Command):
    """Change a held key: `change` is one of its methods, called with the transaction."""

    def __init__(self, change: Callable[[Transaction], None]) -> None:
        super().__init__()
        self._change = change

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self._change(tx)


class DeleteReceipts(Command):
    """Delete at most `most` receipts from before that time, oldest first. The answer is their number."""

    def __init__(self, before: datetime, most: int) -> None:
        super().__init__()
        self.before, self.most = before, most

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        # By primary key, which nearly follows the time and needs no additional index.
        oldest = Receipt.objects.order_by("pk").values_list("pk", "created_at")[: self.most]
        expired_pks = [pk for pk, created_at in oldest if created_at < self.before]
        self.answer = len(expired_pks)
        if expired_pks:
            Receipt.objects.filter(pk__in=expired_pks).delete()
            tx.audit_acts.append(
                Act("retention", "timeout", detail={"deleted": {"receipts": len(expired_pks)}}, at=tx.now)
            )


def find_cutoff(moment: datetime) -> datetime | None:
    """Return the time before which receipts are deleted, None for never.

    It is a whole hour, so that the audit trail gets one entry an hour.
    """
    limits = [days for days in (settings.TOOLCARDS.receipt_days, settings.TOOLCARDS.retention_days) if days]
    before = moment - timedelta(days=min(limits)) if limits else None
    return before.replace(minute=0, second=0, microsecond=0) if before else None
