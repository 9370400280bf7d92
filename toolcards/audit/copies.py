"""Copies of the anchor and of the trail's rows, kept where this server's administrator cannot change them.

A copy is a line of JSON: an anchor as `audit anchor` prints it and as files, standard output and webhooks receive it,
or a row of `audit export`. Other lines, such as those of a log, are skipped.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from toolcards.audit import anchor
from toolcards.audit.anchor import Anchor, InvalidAnchor
from toolcards.audit.anchor_line import TYPE
from toolcards.audit.rows import AuditRow, hash_row

MAX_FAULTS = 20
BATCH = 500


@dataclass
class Comparison:
    """The result of a comparison: numbers of copies and of other lines, the newest row, and the differences.

    `earlier`: number of anchors of an earlier line that no longer match, since an operator accepted the trail
    without their rows (`audit reanchor`).
    """

    copies: int = 0
    other_lines: int = 0
    newest: int = 0
    earlier: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Copy:
    """A row that exists outside this server: its number and hash.

    `place`: its line in the copy; `line`: the line of anchors, 0 for an exported row.
    """

    place: int
    seq: int
    hash: str
    line: int = 0


def compare_copies(lines: Iterable[str]) -> Comparison:
    """Compare copies with the rows in the database, and with the anchor."""
    outcome = Comparison()
    copies = list(_read_copies(lines, outcome))
    newest_line = max((copy.line for copy in copies), default=0)
    for start in range(0, len(copies), BATCH):
        batch = copies[start : start + BATCH]
        rows = AuditRow.objects.filter(seq__in=[copy.seq for copy in batch])
        hashes = dict(rows.values_list("seq", "hash"))
        for copy in batch:
            if copy.seq and hashes.get(copy.seq) != copy.hash:
                if 0 < copy.line < newest_line:
                    outcome.earlier += 1
                else:
                    _add_fault(outcome, copy, "is missing" if copy.seq not in hashes else "is a different one")
    outcome.copies = len(copies)
    outcome.newest = max((copy.seq for copy in copies), default=0)
    return outcome


def _add_fault(outcome: Comparison, copy: Copy, wrong: str) -> None:
    if len(outcome.faults) < MAX_FAULTS:
        outcome.faults.append(f"row {copy.seq}, which line {copy.place} of the copy saw, {wrong} here")


def _read_copies(lines: Iterable[str], outcome: Comparison) -> Iterator[Copy]:
    current = _read_current_anchor()
    for place, text in enumerate(lines, 1):
        content = _parse_line(text)
        if content.get("type") == TYPE or content.keys() == {"seq", "hash"}:
            copy, wrong = _check_anchor(place, text[text.index("{") :], current)
        elif {"seq", "hash", "prev", "key", "act", "detail"} <= content.keys():
            copy, wrong = _check_row(place, content)
        else:
            outcome.other_lines += bool(text.strip())
            continue
        if wrong and len(outcome.faults) < MAX_FAULTS:
            outcome.faults.append(f"line {place} of the copy {wrong}")
        if copy is not None:
            yield copy


def _read_current_anchor() -> Anchor | None:
    try:
        return anchor.read()
    except InvalidAnchor:
        return None


def _parse_line(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _check_anchor(place: int, text: str, current: Anchor | None) -> tuple[Copy | None, str]:
    try:
        copied_anchor = anchor.parse_anchor(text)
    except InvalidAnchor as wrong:
        return None, str(wrong)
    is_ahead = current is not None and (copied_anchor.line, copied_anchor.number) > (current.line, current.number)
    fault = "is newer than the anchor of this server, which was set back" if is_ahead else ""
    return Copy(place, *copied_anchor.end, copied_anchor.line), fault


def _check_row(place: int, content: dict[str, Any]) -> tuple[Copy | None, str]:
    """Check an exported row; it counts only if this server has signed it."""
    detail = json.dumps(content["detail"], separators=(",", ":"), sort_keys=True)
    names = ("seq", "at", "act", "actor_kind", "actor", "run", "call", "approval")
    try:
        row = {name: content[name] for name in names} | {"detail": detail}
        is_signed = hmac.compare_digest(hash_row(row, content["prev"], content["key"]), content["hash"])
    except (KeyError, ValueError, TypeError):
        is_signed = False
    return (Copy(place, content["seq"], content["hash"]), "") if is_signed else (None, "is not a row of this server")
