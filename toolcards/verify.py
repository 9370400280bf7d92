"""Checks the audit trail from its first row to the anchor, and says which row is the first that is wrong.

What came of it is kept in a file beside the anchor, so that people can see when somebody last looked.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from toolcards import anchor
from toolcards.records import GENESIS, AuditHead, AuditRow, hash_of


@dataclass(frozen=True, slots=True)
class Finding:
    """What verifying came to: `fault` is empty where all is well; `seq` is the first bad or the last good row."""

    seq: int
    rows: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Verified:
    """What verifying came to, and when that was, in epoch seconds."""

    finding: Finding
    at: float


def check() -> Finding:
    """Verify, and keep what came of it."""
    found = verify()
    with suppress(OSError):  # a full disk must not hide the answer
        _keep(Verified(found, time.time()))
    return found


def last() -> Verified | None:
    """Return what verifying last came to on this server; None where that is not known."""
    try:
        said = json.loads(path().read_text())
        return Verified(Finding(**said["finding"]), float(said["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def path() -> Path:
    """Return where the last finding lies."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-verified.json"


def _keep(verified: Verified) -> None:
    draft = path().with_name(f".{path().name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as opened:
        opened.write(json.dumps(asdict(verified)) + "\n")
    draft.replace(path())


def verify() -> Finding:
    """Walk the chain. The first fault ends the walk: behind it nothing can be relied on."""
    try:
        ends = _ends()
    except (ValueError, KeyError, TypeError):
        return Finding(0, 0, f"the anchor {anchor.path()} cannot be read")
    prev, seq, rows = GENESIS, 0, 0
    for row in AuditRow.objects.order_by("seq").iterator(chunk_size=2_000):
        if row.seq != seq + 1:
            return Finding(seq + 1, rows, f"row {seq + 1} is missing: row {row.seq} follows row {seq}")
        fault = _fault(row, prev) or _rewritten(row, ends)
        if fault:
            return Finding(row.seq, rows, f"row {row.seq} is bad: {fault}")
        prev, seq, rows = row.hash, row.seq, rows + 1
    seen = max((end for end, _ in ends), default=0)
    return Finding(seq, rows, f"rows {seq + 1} to {seen} are missing at the end" if seen > seq else "")


def _ends() -> list[tuple[int, str]]:
    """The ends of the trail as the head and the anchor have it, read first: rows may be appended while we walk."""
    anchor.write()
    noted = anchor.read()
    head = AuditHead.objects.filter(pk=1).first()
    return [end for end in (noted, (head.seq, head.hash) if head else None) if end]


def _rewritten(row: AuditRow, ends: list[tuple[int, str]]) -> str:
    wrong = any(seq == row.seq and end != row.hash for seq, end in ends)
    return "the anchor or the head saw another row in its place" if wrong else ""


def _fault(row: AuditRow, prev: str) -> str:
    if row.prev != prev:
        return "it does not follow the row before it (moved, or something was taken out or put in)"
    try:
        right = hash_of(row.said, row.prev, row.key)
    except KeyError:
        return "it was signed with a key that this server does not have (see SECRET_KEY_FALLBACKS)"
    except ValueError:
        return "it was changed"
    return "" if hmac.compare_digest(right, row.hash) else "it was changed"
