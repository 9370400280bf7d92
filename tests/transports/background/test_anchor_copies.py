"""Copies of the anchor: when each is sent, and what becomes of a place that does not take one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.support.audit_trail import committed, write_five_acts
from tests.support.id_counters import reset_counters
from tests.support.tables import loop_over
from toolcards.audit import anchor
from toolcards.audit.trail import Act, write_acts
from toolcards.transports.background import anchor_copies

pytestmark = pytest.mark.django_db


@pytest.fixture
def copied(db: None, limits: Any, tmp_path: Path) -> Iterator[Path]:
    """A file that copies of the anchor, at five rows, go to: after three rows, or after a minute."""
    reset_counters()
    write_five_acts()
    anchor_copies.destinations.clear()
    target = tmp_path / "copies.jsonl"
    limits(audit_copy=(str(target),), audit_copy_rows=3, audit_copy_seconds=60.0)
    yield target
    anchor_copies.destinations.clear()


def test_a_copy_is_sent_after_so_many_rows_or_so_long(copied: Path) -> None:
    assert anchor_copies.send_due(1_000.0) == 1  # five rows
    assert anchor_copies.send_due(1_001.0) == 0
    write_acts(Act("six"))
    committed()
    assert anchor_copies.send_due(1_002.0) == 0 and anchor_copies.send_due(1_061.0) == 1  # one row, a minute later
    write_acts(Act("seven"))
    committed()
    assert anchor_copies.send_due(1_062.0, all_of_it=True) == 1  # the server ends
    shown_text = [anchor.parse_anchor(line).seq for line in copied.read_text().splitlines()]
    assert shown_text == [5, 6, 7] and copied.stat().st_mode & 0o777 == 0o600


def test_a_place_that_fails_is_tried_again_and_holds_up_no_other(
    copied: Path, limits: Any, client: Client, a_person: Any
) -> None:
    limits(audit_copy=("/nowhere/at/all", str(copied), "https://10.0.0.1/secret-path"), audit_copy_rows=1)
    assert anchor_copies.send_due(1_000.0) == 1 and anchor_copies.send_due(1_010.0) == 0
    assert anchor_copies.destinations["/nowhere/at/all"].not_before == 1_030.0
    client.force_login(a_person("admin"))
    page = client.get("/settings/audit/").content.decode()
    assert "/nowhere/at/all (failing:" in page and "https://10.0.0.1/…" in page and "secret-path" not in page


def test_a_copy_on_standard_output_is_one_line(copied: Path, limits: Any, capsys: Any) -> None:
    limits(audit_copy=("stdout",), audit_copy_rows=1)
    assert anchor_copies.send_due() == 1
    assert anchor.parse_anchor(capsys.readouterr().out.strip()).seq == 5


def test_without_an_anchor_nothing_is_copied_and_the_log_says_so(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anchor.get_path().write_text("{}")
    assert anchor_copies.send_due() == 0 and "no anchor to copy" in caplog.text and not copied.exists()


def test_nothing_is_read_or_sent_where_no_place_is_named(copied: Path, limits: Any) -> None:
    limits(audit_copy=())
    anchor.get_path().write_text("{}")
    assert anchor_copies.send_due(all_of_it=True) == 0 and not anchor_copies.destinations


def test_a_place_that_has_the_anchor_gets_it_once_also_when_the_server_ends(copied: Path) -> None:
    assert anchor_copies.send_due(1_000.0) == 1
    assert anchor_copies.send_due(9_999.0) == anchor_copies.send_due(9_999.0, all_of_it=True) == 0


def test_a_place_that_failed_is_tried_at_once_when_the_server_ends(copied: Path) -> None:
    copied.mkdir()
    assert anchor_copies.send_due(1_000.0) == 0
    copied.rmdir()
    assert anchor_copies.send_due(1_001.0) == 0 and anchor_copies.send_due(1_001.0, all_of_it=True) == 1
    assert anchor_copies.destinations[str(copied)].trouble == ""


def test_the_log_says_once_in_a_while_that_there_is_no_anchor(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    anchor.get_path().write_text("{}")
    moments = [10_000_000_000.0, 10_000_000_059.0, 10_000_000_061.0]
    assert [anchor_copies.send_due(moment) for moment in moments] == [0, 0, 0]
    assert len(caplog.records) == 2
    anchor_copies._last_complaint = 0.0


def test_a_closed_output_holds_up_no_other_place(
    copied: Path, limits: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "output").open("w") as output:
        monkeypatch.setattr("sys.stdout", output)
    limits(audit_copy=("stdout", str(copied)))
    assert anchor_copies.send_due(1_000.0) == 1 and "closed" in anchor_copies.destinations["stdout"].trouble


def test_a_pipe_that_no_one_reads_holds_up_no_other_place(copied: Path, limits: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    limits(audit_copy=(str(pipe), str(copied)))
    assert anchor_copies.send_due(1_000.0) == 1 and anchor_copies.destinations[str(pipe)].trouble
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert anchor_copies.send_due(1_031.0) == 1
        assert anchor.parse_anchor(os.read(reader, 10_000).decode().strip()).seq == 5
    finally:
        os.close(reader)


def test_a_copy_after_a_failure_has_a_line_of_its_own(copied: Path) -> None:
    copied.mkdir()
    anchor_copies.send_due(1_000.0)
    copied.rmdir()
    copied.write_text('{"type": "toolcards.au')  # what a full disk left of a line
    anchor_copies.send_due(1_031.0)
    lines = copied.read_text().splitlines()
    assert len(lines) == 2 and anchor.parse_anchor(lines[1]).seq == 5


@loop_over(
    "name, description",
    [
        ("stdout", "stdout"),
        ("/var/log/copies", "/var/log/copies"),
        ("https://cards.example/secret", "https://cards.example/…"),
        ("https://cards.example:8443", "https://cards.example:8443/…"),
        ("https://cards.example?token=secret", "https://cards.example/…"),
        ("https://cards.example#secret", "https://cards.example/…"),
        ("https://cards.example\\secret", "https://cards.example/…"),
        ("http://ann:secret@cards.example/x", "http://cards.example/…"),
        ("https://a@b@cards.example", "https://cards.example/…"),
        ("https://[::1]:9/x", "https://[::1]:9/…"),
    ],
)
def test_people_see_a_place_without_its_secrets(name: str, description: str) -> None:
    assert anchor_copies.describe_destination(name) == description
