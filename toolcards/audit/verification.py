"""Verifies the audit trail from its first row to its end, and reports the first bad row.

The end is compared with all records of it outside the table: the anchor, the last verification, this process, and the
acts that other tables have. The signed result is stored in a file next to the anchor, so that people can see when the
trail was last verified.
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

from toolcards.audit import anchor, witnesses
from toolcards.audit.anchor import Anchor, End, InvalidAnchor
from toolcards.audit.anchor_line import GENESIS
from toolcards.audit.rows import AuditHead, AuditRow, hash_row, is_of_first_version
from toolcards.encryption import derive_key
from toolcards.files import read_file, replace_file


@dataclass(frozen=True, slots=True)
class TrailFinding:
    """The result of a verification. `fault` is empty for an intact trail; `seq` is the first bad or last good row.

    `kind`: `whole`; `broken` (a row is wrong); `behind` (the last rows are missing: deleted, or the database was
    restored from a backup); `unanchored` (no trustworthy record shows where the trail ended).
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
class VerificationResult:
    """A finding and its time in epoch seconds."""

    finding: TrailFinding
    at: float


_TITLES = {
    "whole": "Audit trail intact",
    "broken": "The audit trail is broken",
    "behind": "The audit trail is behind its anchor",
    "unanchored": "The end of the audit trail cannot be trusted",
}


class Witness(NamedTuple):
    """A record outside the table that the trail ended with this row, in this line (see `Anchor`)."""

    name: str
    seq: int
    hash: str
    line: int


class StoredResult(NamedTuple):
    """The content of the result file; `end` is the last row of the trail when it was last intact."""

    verified: VerificationResult
    end: End
    line: int


def verify_and_store() -> TrailFinding:
    """Verify the trail, advance the anchor and store the result."""
    finding = _advance_anchor(verify())
    with suppress(OSError):  # a full disk must not hide the answer
        _store_result(VerificationResult(finding, time.time()))
    return finding


def get_last_result() -> VerificationResult | None:
    """Return the last result of this server, None if unknown."""
    last = _read_result()
    return last.verified if last else None


def get_path() -> Path:
    """Return the path of the result file."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-verified.json"


def verify() -> TrailFinding:
    """Verify all rows up to the first fault."""
    outside = _gather_witnesses()
    prev, seq = GENESIS, 0
    for row in AuditRow.objects.order_by("seq").iterator(chunk_size=2_000):
        if row.seq != seq + 1:
            return TrailFinding(seq + 1, seq, f"row {seq + 1} is missing: row {row.seq} follows row {seq}", "broken")
        fault = _find_fault(row, prev) or _find_rewrite(row, outside.witnesses)
        if fault:
            return TrailFinding(row.seq, seq, f"row {row.seq} is not valid: {fault}", "broken")
        prev, seq = row.hash, row.seq
    return _compare_end((seq, prev), outside)


def check_end() -> TrailFinding:
    """Check only the end of the trail, and advance the anchor."""
    outside = _gather_witnesses()
    end = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
    for witness in outside.witnesses:
        stored_hash = AuditRow.objects.filter(seq=witness.seq).values_list("hash", flat=True).first()
        if stored_hash is not None and stored_hash != witness.hash:
            return TrailFinding(
                witness.seq, end[0], f"row {witness.seq} is not valid: {_OTHER_ROW.format(witness.name)}", "broken"
            )
    return _advance_anchor(_compare_end(end, outside))


# ---------------------------------------------------------------- the end


class EndWitnesses(NamedTuple):
    """The anchor, its fault, and all witnesses of the end of the trail."""

    anchor: Anchor | None
    anchor_fault: str
    witnesses: list[Witness]


def _gather_witnesses() -> EndWitnesses:
    """Gather the witnesses before the rows are read, since a server may append rows in the meantime.

    The anchor may advance too, so it is read after the records that are compared with it.
    """
    last, anchor_fault = _read_result(), ""
    ends = [Witness("this server", *end, anchor.get_known_line()) for end in anchor.list_known_ends()]
    try:
        anchor.write()
    except InvalidAnchor:
        pass  # reported below
    except OSError as error:
        anchor_fault = _CANNOT_WRITE.format(anchor.get_path(), error.strerror)
    current = None
    try:
        current = anchor.read()
    except InvalidAnchor as wrong:
        anchor_fault = f"the anchor {anchor.get_path()} {wrong}"
    if last and last.end[0]:
        ends.append(Witness("the last verification", *last.end, last.line))
    if current is not None:
        anchor.follow_line(current.line)
        # Line 0: the process has not read an anchor yet.
        accepted_witnesses = [witness for witness in ends if not witness.line or witness.line >= current.line]
        ends = [Witness("the anchor", *current.end, current.line), *accepted_witnesses]
    return EndWitnesses(current, anchor_fault, ends)


def _compare_end(end: End, outside: EndWitnesses) -> TrailFinding:
    """Compare the end of the table with its witnesses."""
    seq = end[0]
    head = AuditHead.objects.filter(pk=1).values_list("seq", "hash").first() or (0, GENESIS)
    furthest = max([*outside.witnesses, Witness("its own head", *head, 0)], key=lambda witness: witness.seq)
    if furthest.seq > seq and not AuditRow.objects.filter(seq__gt=seq).exists():
        return TrailFinding(seq, seq, _MISSING_ROWS.format(seq + 1, furthest.seq, furthest.name), "behind")
    if head[0] < seq or (head[0] == seq and head != end):
        return TrailFinding(seq, seq, f"the head of the trail was set back: it names row {head[0]}", "broken")
    acts = _find_unrecorded_acts(seq, outside.anchor)
    if acts:
        return TrailFinding(seq, seq, f"rows are missing: the database has {acts} without a row in the trail", "behind")
    fault = outside.anchor_fault or _find_anchor_doubt(seq, outside)
    return TrailFinding(seq, seq, fault, "unanchored" if fault else "whole")


def _find_unrecorded_acts(seq: int, current: Anchor | None) -> str:
    """Return acts without a row. The anchor gives the time from which each act has a row, unless the trail is empty."""
    if not seq:
        return witnesses.find_earlier_use(recent=0)
    return witnesses.find_unrecorded_acts(current.since / 1000) if current is not None and current.signed else ""


def _find_anchor_doubt(seq: int, outside: EndWitnesses) -> str:
    current = outside.anchor
    if current is None:
        return f"the anchor {anchor.get_path()} is missing" if seq or outside.witnesses else ""
    if not current.signed:
        return "" if is_of_first_version() else f"the anchor {anchor.get_path()} is not signed"
    ahead = next((each for each in outside.witnesses if each.seq > current.seq or each.line > current.line), None)
    if ahead is not None:
        return f"the anchor was set back: it ends at row {current.seq}, and {ahead.name} saw row {ahead.seq}"
    if current.doubts:
        return f"the trail was started again in a database that was in use: it had {current.doubts}"
    return ""


def _advance_anchor(finding: TrailFinding) -> TrailFinding:
    """Advance the anchor to the verified end, including rows that other servers wrote."""
    if finding.fault or not finding.seq:
        return finding
    try:
        anchor.advance(_find_end(finding.seq))
    except (InvalidAnchor, OSError) as error:
        return TrailFinding(finding.seq, finding.rows, _CANNOT_WRITE.format(anchor.get_path(), error), "unanchored")
    return finding


def _find_end(seq: int) -> End:
    return AuditRow.objects.filter(seq=seq).values_list("seq", "hash").first() or (0, GENESIS)


# ---------------------------------------------------------------- the last result


def _store_result(result: VerificationResult) -> None:
    """Store the result; while the trail has a fault, the last intact end stays on record."""
    before, line = _read_result(), 0
    with suppress(InvalidAnchor):
        current = anchor.read()
        line = current.line if current else 0
    is_intact = not result.finding.fault
    end = _find_end(result.finding.seq) if is_intact else (before.end if before else (0, GENESIS))
    line = line if is_intact or before is None else max(line, before.line)
    text = json.dumps({"verified": asdict(result), "end": end, "line": line})
    replace_file(get_path(), json.dumps({"text": text, "sig": _sign(settings.SECRET_KEY, text)}) + "\n")


def _read_result() -> StoredResult | None:
    """Return the stored result, None if it is missing or not signed by this server."""
    try:
        signed_text = json.loads(read_file(get_path()))
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if not any(hmac.compare_digest(_sign(key, signed_text["text"]), signed_text["sig"]) for key in keys):
            return None
        content = json.loads(signed_text["text"])
        result = VerificationResult(TrailFinding(**content["verified"]["finding"]), float(content["verified"]["at"]))
        return StoredResult(result, (int(content["end"][0]), str(content["end"][1])), int(content["line"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None


def _sign(secret: str, text: str) -> str:
    return hmac.digest(derive_key(secret, "audit.verified"), text.encode(), "sha256").hex()


# ---------------------------------------------------------------- one row

_MISSING_ROWS = "rows {} to {} are missing at the end: the database is behind {} (restored from a backup, or cut off)"
_CANNOT_WRITE = "the anchor {} cannot be written: {}"
_OTHER_ROW = "{} saw another row in its place"


def _find_rewrite(row: AuditRow, ends: list[Witness]) -> str:
    wrong = next((witness for witness in ends if witness.seq == row.seq and witness.hash != row.hash), None)
    return _OTHER_ROW.format(wrong.name) if wrong else ""


def _find_fault(row: AuditRow, prev: str) -> str:
    if row.prev != prev:
        return "it does not follow the row before it (a row was moved, removed or inserted)"
    try:
        right = hash_row(row.content, row.prev, row.key)
    except KeyError:
        return "it was signed with a key that this server does not have (see SECRET_KEY_FALLBACKS)"
    except ValueError:
        return "it was changed"
    return "" if hmac.compare_digest(right, row.hash) else "it was changed"
