"""Copies of the anchor outside show what nothing here knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.support.audit_trail import committed, cut, restarted
from tests.support.id_counters import reset_counters
from toolcards.audit import anchor, verification
from toolcards.audit.trail import Act, write_acts
from toolcards.transports.background import anchor_copies

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_was_ever_there(db: None) -> None:
    reset_counters()


@pytest.fixture
def copied(limits: Any, tmp_path: Path) -> Iterator[Path]:
    """A file that copies of the anchor go to after three rows."""
    anchor_copies.destinations.clear()
    target = tmp_path / "copies.jsonl"
    limits(audit_copy=(str(target),), audit_copy_rows=3)
    yield target
    anchor_copies.destinations.clear()


def compared(copy: Path) -> str:
    """Return what the command says, its refusals included."""
    import io

    out = io.StringIO()
    try:
        call_command("audit", "verify", against=str(copy), stdout=out)
    except CommandError as refused:
        return f"{refused.returncode} {refused}"
    return out.getvalue()


def exported(target: Path) -> Path:
    with target.open("w") as output_file:
        call_command("audit", "export", stdout=output_file)
    return target


def test_a_copy_agrees_with_the_trail_it_was_made_of(five: None, copied: Path, tmp_path: Path) -> None:
    anchor_copies.send_due()
    with copied.open("a") as log:
        log.write("\n2026-01-01 a line of the log\n")
    assert "1 copies agree with it, the newest with row 5" in compared(copied)
    assert "5 copies agree with it" in compared(exported(tmp_path / "rows"))
    call_command("audit", "anchor", stdout=copied.open("w"))
    assert "1 copies agree" in compared(copied)


def test_a_copy_shows_what_nothing_here_knows_any_more(five: None, copied: Path, tmp_path: Path) -> None:
    """The attacker has the key: rows, anchor and notes are as if the last acts had never been."""
    anchor_copies.send_due()
    rows = exported(tmp_path / "rows")
    cut(3)
    verification.get_path().unlink(missing_ok=True)
    anchor.accept_end(verification._find_end(3))
    assert verification.verify_and_store().fault == ""
    assert compared(copied).startswith("1 The copy and the audit trail differ: row 5, which line 1 of the copy saw, is")
    assert "row 4, which line 4 of the copy saw, is missing here" in compared(rows)
    write_acts(Act("four"), Act("five"))
    assert "row 5, which line 1 of the copy saw, is a different one here" in compared(copied)


def test_an_anchor_that_was_set_back_shows_by_its_copy(five: None, copied: Path) -> None:
    older = anchor.get_path().read_text()
    write_acts(Act("six"))
    committed()
    anchor_copies.send_due()
    anchor.get_path().write_text(older)
    restarted()
    verification.get_path().unlink(missing_ok=True)
    anchor.get_path().write_text(
        anchor.serialize_anchor(anchor.parse_anchor(older).advance_to(verification._find_end(6), 0))
    )
    assert "differ" not in compared(copied)
    anchor.get_path().write_text(older)
    verification.get_path().unlink(missing_ok=True)
    finding = verification.verify()
    assert finding.fault == ""
    from toolcards.audit import copies

    assert "was set back" in copies.compare_copies(copied.read_text().splitlines()).faults[0]


ROW = dict.fromkeys(("act", "actor_kind", "actor", "run", "call", "approval", "key", "prev", "hash"), "x") | {
    "seq": 1, "at": 1, "detail": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "2 The copy"), ("hello\n{}\n[]\n", "2 The copy"), ('{"seq": 5, "hash": "x"}', "row 5"),
        ('{"type": "toolcards.audit.anchor"}', "line 1 of the copy cannot be read"),
        (json.dumps(ROW), "line 1 of the copy is not a row of this server"),
        ('{"seq":1,"act":[],"detail":{},"key":[],"prev":1,"hash":2}', "line 1 of the copy is not a row of this server"),
    ],
)  # fmt: skip
def test_a_copy_that_says_nothing_or_nonsense_is_refused(five: None, tmp_path: Path, text: str, answer: str) -> None:
    copy = tmp_path / "copy"
    copy.write_text(text)
    assert answer in compared(copy)
    assert "cannot be read" in compared(tmp_path / "none")


def test_copies_of_the_time_before_the_trail_was_accepted_are_only_counted(five: None, copied: Path) -> None:
    anchor_copies.send_due()
    cut(3)
    restarted()
    call_command("audit", "reanchor")
    anchor_copies.send_due(all_of_it=True)
    assert "1 older copies do not: the trail was reanchored after them" in compared(copied)
