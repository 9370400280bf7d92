"""The audit trail from the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.support.audit_trail import read_last, sql, write_five_acts
from tests.support.id_counters import reset_counters
from toolcards.audit import anchor
from toolcards.audit.rows import AuditHead, AuditRow
from toolcards.audit.trail import Act, write_acts

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_was_ever_there(db: None) -> None:
    reset_counters()


def test_the_export_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    write_acts(Act("one", detail={"a": 1}), Act("two"))
    call_command("audit", "export")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["seq"], row["act"], row["detail"]) for row in rows] == [(1, "one", {"a": 1}), (2, "two", {})]
    assert rows[1]["prev"] == rows[0]["hash"] == AuditRow.objects.get(seq=1).hash
    assert AuditHead.objects.get().hash == rows[1]["hash"]


def test_an_export_can_go_on_where_an_earlier_one_ended(run: Callable[..., str]) -> None:
    write_five_acts()
    rows = [json.loads(line)["seq"] for line in run("audit", "export", "--after", "3").splitlines()]
    assert rows == [4, 5] and run("audit", "export", "--after", "5") == ""


def test_an_intact_trail_is_reported_with_its_rows(run: Callable[..., str]) -> None:
    write_five_acts()
    assert run("audit", "verify").endswith(": 5 rows.\n")


def test_a_changed_row_ends_the_command_with_an_error_until_it_is_accepted(run: Callable[..., str]) -> None:
    write_five_acts()
    sql("UPDATE toolcards_auditrow SET actor = 'eve' WHERE seq = 3")
    with pytest.raises(CommandError, match="row 3 is not valid") as error:
        run("audit", "verify")
    assert error.value.returncode == 1
    with pytest.raises(CommandError, match="Accepted, but"):
        run("audit", "reanchor")  # a row that was changed stays changed


def test_a_trail_that_was_cut_is_accepted_with_a_row_that_says_so(run: Callable[..., str]) -> None:
    write_five_acts()
    sql("DELETE FROM toolcards_auditrow WHERE seq > 3")
    with pytest.raises(CommandError):
        run("audit", "verify")
    assert "The anchor is at row 4." in run("audit", "reanchor")
    details = read_last("trail.reanchored").details
    assert details["anchor_was"]["seq"] == 5 and details["fault"]
    assert ": 4 rows." in run("audit", "verify")


def test_the_anchor_is_printed_only_if_it_is_signed(run: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="There is no signed anchor yet"):
        run("audit", "anchor")
    write_five_acts()
    assert anchor.parse_anchor(run("audit", "anchor").strip()).seq == 5
    anchor.get_path().write_text("{}")
    with pytest.raises(CommandError, match=r"The anchor .*audit-anchor"):
        run("audit", "anchor")


def test_a_copy_is_read_from_a_file_or_from_standard_input(
    run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_five_acts()
    line = run("audit", "anchor")
    (tmp_path / "copy").write_bytes(b"\xff a line that is no text\n" + line.encode())
    assert "1 copies agree with it" in run("audit", "verify", "--against", str(tmp_path / "copy"))
    monkeypatch.setattr("sys.stdin", io.StringIO(line))
    assert "1 copies agree with it" in run("audit", "verify", "--against", "-")
    for name in ("missing", "."):
        with pytest.raises(CommandError, match="cannot be read") as error:
            run("audit", "verify", "--against", str(tmp_path / name))
        assert error.value.returncode == 2
