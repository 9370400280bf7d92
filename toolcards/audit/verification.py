"""Checks the audit trail from its first row to its end, and shows the first row that is wrong.

The end is compared with everything outside the table that saw it: the anchor, the last verification, this process,
and the acts that the rest of the database knows of. The result is kept, signed, in a file beside the anchor, so that
people can see when the trail was last verified.
"""

from __future__ import annotations

import hmac
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from toolcards.audit import anchor, trail, witnesses
from toolcards.audit.anchor import Anchor, End, NotOurs
from toolcards.audit.trail import GENESIS, AuditHead, AuditRow, hash_of
from toolcards.files import replace_file
from toolcards.showing import derived


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of verifying. `fault` is empty where all is well; `seq` is the first bad or the last good row.

    `kind`: `whole`; `broken` (a row is wrong); `behind` (rows that were there are missing at the end: cut off, or the
    database was restored from a backup); `unanchored` (nothing trustworthy shows where the trail ended).
    """

    seq: int
    rows: int
    fault: str = ""
    kind: str = "whole"

    @property
    def title(self) -> str:
        """The result in a few words."""
        return _TITLES[self.kind]


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying, and when that was, in epoch seconds."""

    finding: Finding
    at: float


_TITLES = {
    "whole": "The audit trail is whole",
    "broken": "The audit trail is broken",
    "behind": "The audit trail is behind its anchor",
    "unanchored": "The end of the audit trail cannot be trusted",
}


class Witness(NamedTuple):
    """Something outside the table that saw the trail end with this row, in this line (see `Anchor`)."""

    name: str
    seq: int
    hash: str
    line: int


class Note(NamedTuple):
    """What the file with the last result holds; `end` is the last row of the trail when it was last whole."""

    verified: Verified
    end: End
    line: int


def check() -> Finding:
    """Verify, move the anchor up to the end of a trail that is whole, and keep the result."""
    finding = _followed(verify())
    with suppress(OSError):  # a full disk must not hide the answer
        _keep(Verified(finding, time.time()))
    return finding


def last() -> Verified | None:
    """Return the last result of this server; None where that is not known."""
    note = _noted()
    return note.verified if note else None


def path() -> Path:
    """Return where the last result is."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-verified.json"


def verify() -> Finding:
    """Walk the chain. The first fault ends the walk: behind it nothing can be relied on."""
    outside = _outside()
    prev, seq = GENESIS, 0
    for row in AuditRow.objects.order_by("seq").iterator(chunk_size=2_000):
        if row.seq != seq + 1:
            return Finding(seq + 1, seq, f"row {seq + 1} is missing: row {row.seq} follows row {seq}", "broken")
        fault = _fault(row, prev) or _rewritten(row, outside.seen)
        if fault:
            return Finding(row.seq, seq, f"row {row.seq} is bad: {fault}", "broken")
        prev, seq = row.hash, row.seq
    return _judged((seq, prev), outside)


def glance() -> Finding:
    """Look at the end of the trail only, which is quick; move the anchor up to it where nothing is wrong."""
    outside = _outside()
    end = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
    for witness in outside.seen:
        known = AuditRow.objects.filter(seq=witness.seq).values_list("hash", flat=True).first()
        if known is not None and known != witness.hash:
            return Finding(witness.seq, end[0], f"row {witness.seq} is bad: {_ANOTHER.format(witness.name)}", "broken")
    return _followed(_judged(end, outside))


# ---------------------------------------------------------------- the end


class Outside(NamedTuple):
    """The anchor, what is wrong with it, and everything that saw the end of the trail."""

    anchor: Anchor | None
    trouble: str
    seen: list[Witness]


def _outside() -> Outside:
    """Look around before the rows are read, which may grow; what may move up is read after what compares with it."""
    note, trouble = _noted(), ""
    seen = [Witness("this server", *end, anchor.known_line()) for end in anchor.known_ends()]
    try:
        anchor.write()
    except NotOurs:
        pass  # said below
    except OSError as error:
        trouble = _CANNOT_WRITE.format(anchor.path(), error.strerror)
    current = None
    try:
        current = anchor.read()
    except NotOurs as wrong:
        trouble = f"the anchor {anchor.path()} {wrong}"
    if note and note.end[0]:
        seen.append(Witness("the last verification", *note.end, note.line))
    if current is not None:
        anchor.follow_line(current.line)
        accepted = [one for one in seen if not one.line or one.line >= current.line]  # 0: no anchor was seen yet
        seen = [Witness("the anchor", *current.end, current.line), *accepted]
    return Outside(current, trouble, seen)


def _judged(end: End, outside: Outside) -> Finding:
    """Compare the end of the table with all that saw it."""
    seq = end[0]
    head = AuditHead.objects.filter(pk=1).values_list("seq", "hash").first() or (0, GENESIS)
    furthest = max([*outside.seen, Witness("its own head", *head, 0)], key=lambda witness: witness.seq)
    if furthest.seq > seq and not AuditRow.objects.filter(seq__gt=seq).exists():
        return Finding(seq, seq, _MISSING.format(seq + 1, furthest.seq, furthest.name), "behind")
    if head[0] < seq or (head[0] == seq and head != end):
        return Finding(seq, seq, f"the head of the trail was set back: it names row {head[0]}", "broken")
    lost = _lost(seq, outside.anchor)
    if lost:
        return Finding(seq, seq, f"rows are missing: the database has {lost} without a row in the trail", "behind")
    trouble = outside.trouble or _doubted(seq, outside)
    return Finding(seq, seq, trouble, "unanchored" if trouble else "whole")


def _lost(seq: int, current: Anchor | None) -> str:
    """Acts without a row. Of a trail that has a row already, only the anchor tells since when each act has one."""
    if not seq:
        return witnesses.earlier_use(recent=0)
    return witnesses.unrecorded(current.since / 1000) if current is not None and current.signed else ""


def _doubted(seq: int, outside: Outside) -> str:
    current = outside.anchor
    if current is None:
        return f"the anchor {anchor.path()} is missing" if seq or outside.seen else ""
    if not current.signed:
        return "" if trail.is_of_first_version() else f"the anchor {anchor.path()} is not signed"
    ahead = next((one for one in outside.seen if one.seq > current.seq or one.line > current.line), None)
    if ahead is not None:
        return f"the anchor was set back: it ends at row {current.seq}, and {ahead.name} saw row {ahead.seq}"
    if current.doubts:
        return f"the trail was begun again in a database that was in use: it had {current.doubts}"
    return ""


def _followed(finding: Finding) -> Finding:
    """Move the anchor up to the verified end: it keeps up with rows that other machines wrote, too."""
    if finding.fault or not finding.seq:
        return finding
    try:
        anchor.advance(_end(finding.seq))
    except (NotOurs, OSError) as error:
        return Finding(finding.seq, finding.rows, _CANNOT_WRITE.format(anchor.path(), error), "unanchored")
    return finding


def _end(seq: int) -> End:
    return AuditRow.objects.filter(seq=seq).values_list("seq", "hash").first() or (0, GENESIS)


# ---------------------------------------------------------------- the last result


def _keep(verified: Verified) -> None:
    """Write the result down; while the trail is not whole, the end of the time before stays on record."""
    before, line = _noted(), 0
    with suppress(NotOurs):
        current = anchor.read()
        line = current.line if current else 0
    whole = not verified.finding.fault
    end = _end(verified.finding.seq) if whole else (before.end if before else (0, GENESIS))
    line = line if whole or before is None else max(line, before.line)
    text = json.dumps({"verified": asdict(verified), "end": end, "line": line})
    replace_file(path(), json.dumps({"text": text, "sig": _signature(settings.SECRET_KEY, text)}) + "\n")


def _noted() -> Note | None:
    """Return what was kept; one that this server did not sign is none."""
    try:
        kept = json.loads(path().read_text())
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if not any(hmac.compare_digest(_signature(key, kept["text"]), kept["sig"]) for key in keys):
            return None
        content = json.loads(kept["text"])
        verified = Verified(Finding(**content["verified"]["finding"]), float(content["verified"]["at"]))
        return Note(verified, (int(content["end"][0]), str(content["end"][1])), int(content["line"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None


def _signature(secret: str, text: str) -> str:
    return hmac.digest(derived(secret, "audit.verified"), text.encode(), "sha256").hex()


# ---------------------------------------------------------------- one row

_MISSING = "rows {} to {} are missing at the end: the database is behind {} (restored from a backup, or cut off)"
_CANNOT_WRITE = "the anchor {} cannot be written: {}"
_ANOTHER = "{} saw another row in its place"


def _rewritten(row: AuditRow, ends: list[Witness]) -> str:
    wrong = next((witness for witness in ends if witness.seq == row.seq and witness.hash != row.hash), None)
    return _ANOTHER.format(wrong.name) if wrong else ""


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
