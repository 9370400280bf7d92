"""Copies of the anchor and of the trail's rows, kept where this server's administrator cannot change them.

A copy is a line of JSON: an anchor as `audit anchor`, a file, standard output or a webhook gets it, or a row as
`audit export` writes it. Other lines, such as a log's, are skipped.
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
from toolcards.audit.trail import AuditRow, hash_row

MAX_FAULTS = 20
BATCH = 500


@dataclass
class Comparison:
    """What comparing came to: lines that are copies, lines that are not, the newest row, and what does not fit.

    `earlier`: anchors of an earlier line that do not fit any more, since an operator accepted the trail without
    what they saw (`audit reanchor`).
    """

    copies: int = 0
    others: int = 0
    newest: int = 0
    earlier: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Copy:
    """A row that somebody outside saw: its line in the copy, its number and hash; `line` of an anchor, 0 for a row."""

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
        some = copies[start : start + BATCH]
        here = dict(AuditRow.objects.filter(seq__in=[copy.seq for copy in some]).values_list("seq", "hash"))
        for copy in some:
            if copy.seq and here.get(copy.seq) != copy.hash:
                if 0 < copy.line < newest_line:
                    outcome.earlier += 1
                else:
                    _add_fault(outcome, copy, "is missing" if copy.seq not in here else "is another one")
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
            outcome.others += bool(text.strip())
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
        seen = anchor.parse_anchor(text)
    except InvalidAnchor as wrong:
        return None, str(wrong)
    ahead = current is not None and (seen.line, seen.number) > (current.line, current.number)
    set_back = "is newer than the anchor of this server, which was set back" if ahead else ""
    return Copy(place, *seen.end, seen.line), set_back


def _check_row(place: int, content: dict[str, Any]) -> tuple[Copy | None, str]:
    """A row that was exported; one that this server did not sign proves nothing."""
    detail = json.dumps(content["detail"], separators=(",", ":"), sort_keys=True)
    names = ("seq", "at", "act", "actor_kind", "actor", "run", "call", "approval")
    try:
        row = {name: content[name] for name in names} | {"detail": detail}
        signed = hmac.compare_digest(hash_row(row, content["prev"], content["key"]), content["hash"])
    except (KeyError, ValueError, TypeError):
        signed = False
    return (Copy(place, content["seq"], content["hash"]), "") if signed else (None, "is no row of this server")
