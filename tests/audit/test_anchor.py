"""The anchor: it shows that the end of the trail was cut, rewritten or put back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tests.support.audit_trail import committed, cut, restarted, sql
from tests.support.id_counters import reset_counters
from tests.support.server import PATIENCE, Server, until
from tests.support.services import postgres
from toolcards.audit import anchor, anchor_line, rows, verification, witnesses
from toolcards.audit.rows import AuditHead, AuditRow
from toolcards.audit.trail import Act, write_acts
from toolcards.models import AgentKey
from toolcards.transports.metrics import MetricsCollector

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_was_ever_there(db: None) -> None:
    reset_counters()


def row_hash(seq: int) -> str:
    return AuditRow.objects.get(seq=seq).hash


# ---------------------------------------------------------------- the anchor
def test_a_first_start_is_whole_and_a_trail_without_rows_is_too() -> None:
    assert verification.verify_and_store() == verification.TrailFinding(0, 0)
    write_acts(Act("first"))
    assert verification.verify_and_store().kind == "whole" and anchor.read().seq == 1  # type: ignore[union-attr]


def test_the_anchor_moves_along_rows_that_exist_and_never_back(five: None) -> None:
    for seq, row_hash in ((9, "a" * 64), (3, AuditRow.objects.get(seq=3).hash)):
        anchor.note_end(seq, row_hash)
        anchor.write()
        assert anchor.read().seq == 5  # type: ignore[union-attr]
        restarted()


def test_a_reset_waits_for_the_thread_that_writes(five: None) -> None:
    ending = anchor._list_writers()  # canceled, but perhaps not over yet
    with anchor._file_lock:  # where the thread waits
        anchor.note_end(5 + anchor.EVERY_ROWS, row_hash(5))
        (writer,) = (each for each in anchor._list_writers() if each not in ending)
        until(lambda: anchor._process.timer is None)
        resetting = threading.Thread(target=anchor.reset)
        resetting.start()
        until(lambda: anchor._process.newest is None)
        assert writer.is_alive() and resetting.is_alive()
    resetting.join(PATIENCE)
    assert not writer.is_alive() and not anchor._list_writers()


BROKEN: list[tuple[str, Callable[[dict[str, Any]], str], str]] = [
    ("unsigned, as version 1 was", lambda fields: json.dumps({"seq": 3, "hash": row_hash(3)}), "is not signed"),
    ("another row", lambda fields: json.dumps(fields | {"seq": 3}), "not signed by this server"),
    ("another time", lambda fields: json.dumps(fields | {"since": 0}), "not signed by this server"),
    ("no signature", lambda fields: json.dumps(fields | {"sig": ""}), "not signed by this server"),
    ("an odd signature", lambda fields: json.dumps(fields | {"sig": "ü" * 64}), "not signed by this server"),
    ("a signature of another kind", lambda fields: json.dumps(fields | {"sig": 7}), "not signed by this server"),
    ("a field more", lambda fields: json.dumps(fields | {"more": 1}), "not signed by this server"),
    ("a number without one spelling", lambda fields: json.dumps(fields | {"more": 2**70}), "not signed by this server"),
    ("another key", lambda fields: json.dumps(fields | {"key": "12345678"}), "a key that this server does not have"),
    ("an odd key", lambda fields: json.dumps(fields | {"key": ["x"]}), "a key that this server does not have"),
    ("nothing", lambda fields: "", "cannot be read"),
    ("a list", lambda fields: "[]", "cannot be read"),
    ("a depth", lambda fields: "[" * 100_000, "cannot be read"),
    ("half of it", lambda fields: json.dumps(fields)[:40], "cannot be read"),
]


@pytest.mark.parametrize(("rewrite", "fault"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_rewritten_anchor_is_a_finding_and_stays_one(
    five: None, rewrite: Callable[[dict[str, Any]], str], fault: str
) -> None:
    anchor.get_path().write_text(rewrite(json.loads(anchor.get_path().read_text())))
    cut(3)
    assert fault in verification.verify_and_store().fault
    write_acts(Act("goes on"))
    committed()
    assert fault in verification.verify_and_store().fault and verification.verify_and_store().kind == "unanchored"


def test_a_missing_anchor_is_a_finding_and_is_not_made_again(five: None) -> None:
    anchor.get_path().unlink()
    for _ in range(2):
        finding = verification.verify_and_store()
        assert finding.kind == "unanchored" and "is missing" in finding.fault
        write_acts(Act("goes on"))
        committed()
    assert not anchor.get_path().exists()


def test_the_anchor_is_not_moved_over_rows_that_contradict_it(five: None) -> None:
    cut(2)
    for number in range(9):
        write_acts(Act(f"forged {number}"))
        committed()
        anchor.write()
        restarted()
    assert (
        anchor.read().seq == 5
        and "row 5 is not valid: the anchor saw another row" in verification.verify_and_store().fault
    )  # type: ignore[union-attr]


def test_a_process_remembers_what_it_wrote(five: None) -> None:
    write_acts(Act("one"), Act("more"))
    committed()
    cut(5)
    anchor.get_path().unlink()
    finding = verification.verify()
    assert finding.kind == "behind" and "rows 6 to 7 are missing at the end" in finding.fault
    write_acts(Act("goes on"), Act("goes on"), Act("goes on"))
    committed()
    assert "row 7 is not valid: this server saw another row" in verification.verify().fault


def test_an_older_anchor_that_was_put_back_shows(five: None) -> None:
    older = anchor.get_path().read_text()
    write_acts(Act("six"))
    verification.verify_and_store()
    anchor.get_path().write_text(older)
    restarted()
    finding = verification.verify()
    assert finding.fault == "the anchor was set back: it ends at row 5, and the last verification saw row 6"


def test_a_stored_result_without_a_valid_signature_does_not_count(five: None) -> None:
    verification.verify_and_store()
    document = json.loads(verification.get_path().read_text())
    verification.get_path().write_text(json.dumps(document | {"text": document["text"].replace("whole", "Whole")}))
    assert verification.get_last_result() is None


def test_a_new_key_signs_the_anchor_and_the_old_one_still_counts(settings: Any, five: None) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key"
    assert verification.verify_and_store().fault == ""
    write_acts(Act("six"))
    assert verification.verify_and_store().fault == ""
    settings.SECRET_KEY_FALLBACKS = []
    settings.SECRET_KEY = "a third key"
    assert verification.verify_and_store().fault


def test_an_anchor_that_cannot_be_written_is_a_finding(five: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(created: anchor_line.Anchor) -> None:
        raise OSError(28, "No space left on device")

    write_acts(Act("six"))
    monkeypatch.setattr(anchor, "_replace", full)
    finding = verification.verify_and_store()
    assert finding.kind == "unanchored" and "No space left" in finding.fault
    committed()
    assert "No space left" in verification.verify_and_store().fault


def test_a_trail_that_is_begun_again_says_so_for_ever(key: AgentKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "RECENT_SECONDS", 0.0)
    sql("DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead")
    anchor.get_path().unlink()
    restarted()
    write_acts(Act("a start"))
    committed()
    for _ in range(2):
        finding = verification.verify_and_store()
        assert finding.kind == "unanchored" and "started again in a database that was in use: it had 1 agent key" in (
            finding.fault
        )
        restarted()
    write_acts(Act("goes on"))
    assert "started again" in verification.verify_and_store().fault


# ---------------------------------------------------------------- upgrades, restores, and acceptance
@contextmanager
def of_version_one() -> Iterator[None]:
    """Write rows as the version before signed anchors did."""
    purpose, rows._PURPOSE = rows._PURPOSE, rows._FIRST_PURPOSE
    rows._build_keys.cache_clear()
    try:
        yield
    finally:
        rows._PURPOSE = purpose
        rows._build_keys.cache_clear()


@pytest.fixture
def older_version() -> None:
    """Five rows and an anchor of the version before; nothing of it was signed."""
    with of_version_one():
        for number in range(5):
            write_acts(Act(f"act {number}"))
    anchor.reset()
    anchor.get_path().write_text(json.dumps({"seq": 4, "hash": AuditRow.objects.get(seq=4).hash}) + "\n")


@pytest.mark.parametrize("first", ["a row", "a look"])
def test_an_upgrade_signs_the_older_anchor_without_an_alarm(older_version: None, first: str) -> None:
    if first == "a row":
        write_acts(Act("six"))
    assert verification.verify_and_store().fault == ""
    current = anchor.read()
    assert current is not None and current.signed and current.seq == AuditRow.objects.count()
    write_acts(Act("goes on"))
    assert verification.verify_and_store().fault == ""


def test_an_upgrade_of_a_cut_trail_is_no_way_out(older_version: None) -> None:
    cut(3)
    write_acts(Act("goes on"))
    assert verification.verify_and_store().fault


def test_after_an_upgrade_no_unsigned_anchor_counts(older_version: None) -> None:
    write_acts(Act("six"))
    write_acts(Act("seven"))
    verification.verify_and_store()
    cut(6)
    anchor.get_path().write_text(json.dumps({"seq": 6, "hash": AuditRow.objects.get(seq=6).hash}))
    verification.get_path().unlink()
    restarted()
    assert "is not signed" in verification.verify_and_store().fault
    write_acts(Act("goes on"))
    assert "is not signed" in verification.verify_and_store().fault


def test_accepting_a_restored_database_is_a_row_that_says_what_was_accepted(five: None) -> None:
    cut(3)
    restarted()
    with pytest.raises(CommandError, match="behind its anchor: rows 4 to 5 are missing"):
        call_command("audit", "verify")
    call_command("audit", "reanchor")
    accepted = AuditRow.objects.latest("seq")
    assert accepted.act == "trail.reanchored" and accepted.details["row"] == 3
    assert "rows 4 to 5 are missing" in accepted.details["fault"] and accepted.details["anchor_was"]["seq"] == 5
    assert verification.verify_and_store().fault == "" and anchor.read().line == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("part", ["the anchor", "the trail", "its head", "the anchor and the trail"])
def test_whatever_was_lost_can_be_accepted(five: None, key: AgentKey, part: str) -> None:
    verification.verify_and_store()
    if "anchor" in part:
        anchor.get_path().unlink()
    if "trail" in part:
        sql("DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead")
    if "head" in part:
        AuditHead.objects.filter(pk=1).update(seq=2)
    restarted()
    assert verification.verify_and_store().fault
    call_command("audit", "reanchor")
    write_acts(Act("goes on"))
    assert verification.verify_and_store().fault == ""


def test_a_running_server_accepts_what_a_command_accepted(five: None) -> None:
    write_acts(Act("six"))
    committed()
    cut(3)
    assert verification.verify_and_store().kind == "behind"
    here, anchor._process = anchor._process, anchor._Process()  # the command is another process
    call_command("audit", "reanchor")
    anchor._process = here
    assert verification.verify_and_store().fault == ""


def test_an_anchor_of_an_earlier_line_that_was_put_back_shows(five: None) -> None:
    older = anchor.get_path().read_text()
    call_command("audit", "reanchor")
    anchor.get_path().write_text(older)
    assert verification.verify_and_store().fault.startswith("the anchor was set back")
    restarted()
    assert verification.verify_and_store().fault.startswith("the anchor was set back")


def test_the_page_shows_a_cut_end_as_what_it_is(five: None, signed_in: Client) -> None:
    cut(3)
    page = signed_in.post("/settings/audit/verify/").content.decode()
    assert 'data-verified="no"' in page and 'data-finding="behind"' in page and "behind its anchor" in page
    assert 'data-finding="behind"' in signed_in.get("/settings/audit/").content.decode()


def test_a_glance_moves_the_anchor_up_to_rows_that_other_machines_wrote(five: None) -> None:
    write_acts(Act("six"))
    assert anchor.read().seq == 5 and verification.check_end().fault == "" and anchor.read().seq == 6  # type: ignore[union-attr]


def test_metrics_say_whether_the_trail_is_whole(five: None) -> None:
    verification.get_path().unlink(missing_ok=True)
    values = []
    for keep in (5, 3):
        cut(keep)
        verification.verify_and_store()
        samples = (sample for family in MetricsCollector([]).collect() for sample in family.samples)
        values.append(next(sample.value for sample in samples if sample.name == "toolcards_audit_whole"))
    assert values == [1.0, 0.0]


# ---------------------------------------------------------------- real servers
@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Callable[..., None]]]:
    """A server that has never been started, and what runs SQL past it."""
    data = tmp_path / "data"
    data.mkdir()
    if request.param == "sqlite":

        def run(*statements: str) -> None:
            with sqlite3.connect(data / "toolcards.sqlite3") as database:
                for statement in statements:
                    database.execute(statement)
            database.close()

        yield Server(data), run
        return
    with postgres(tmp_path) as url:

        def run_there(*statements: str) -> None:
            import psycopg

            with psycopg.connect(url) as database:
                for statement in statements:
                    database.execute(statement)

        yield Server(data, database_url=url), run_there


FILES = ("audit-anchor.json", "audit-verified.json")


@pytest.mark.slow
def test_a_server_that_was_attacked_while_it_was_down(installed: tuple[Server, Callable[..., None]]) -> None:
    server, run = installed

    def serve() -> None:
        server.start()
        server.stop()

    serve()
    assert server.manage("audit", "verify").returncode == 0  # a first start raises no alarm
    serve()  # nor does a second
    completed = server.manage("audit", "verify")
    assert completed.returncode == 0 and "intact" in completed.stdout
    shown_text = {name: (server.data / name).read_text() for name in FILES}

    run("DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead")
    assert "missing at the end" in server.manage("audit", "verify").stderr
    for name in FILES:
        (server.data / name).unlink(missing_ok=True)
    assert "without a row in the trail" in server.manage("audit", "verify").stderr
    serve()
    for name in FILES:
        (server.data / name).write_text(shown_text[name])
    assert server.manage("audit", "verify").returncode == 1

    assert server.manage("audit", "reanchor").returncode == 0
    serve()
    assert server.manage("audit", "verify").returncode == 0


def test_a_database_restored_from_a_backup_is_behind_its_anchor(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    server = Server(data)
    with server:
        pass
    backup = tmp_path / "backup.sqlite3"
    shutil.copyfile(data / "toolcards.sqlite3", backup)
    assert server.manage("agentkey", "create", "another").returncode == 0
    shutil.copyfile(backup, data / "toolcards.sqlite3")
    completed = server.manage("audit", "verify")
    assert (
        completed.returncode == 1
        and "behind its anchor" in completed.stderr
        and "restored from a backup" in completed.stderr
    )
