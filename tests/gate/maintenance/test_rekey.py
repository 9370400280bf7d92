"""Texts with older keys or without encryption are re-encrypted in small steps while a server runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from tests.support.server import Server
from tests.support.services import postgres
from toolcards import encryption
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import rekey
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Event, Run, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

WORDS = "quietly-plain-argument"


@pytest.fixture(autouse=True)
def _from_the_start() -> None:
    rekey._get_progress_file().unlink(missing_ok=True)


@pytest.fixture
def a_new_key(settings: Any) -> Iterator[Callable[[], None]]:
    """Give `a_new_key()`: from now on another key seals, and the older ones open; afterwards all is as it was."""
    keys = [settings.SECRET_KEY]

    def turn() -> None:
        run_cache.clear()
        keys.append(f"key number {len(keys)}")
        settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS = reversed(keys)

    yield turn
    settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS = keys
    rekey.reseal()


def a_story(a_run: Any, name: str = "run-1") -> Run:
    result: Run = a_run(
        name, f.InputReady("a", "bash", {"command": WORDS}, True), f.OutputReady("a", WORDS), f.TextDelta(text=WORDS)
    )
    return result


def read_everything() -> list[Any]:
    """Everything sealed, opened."""
    rows: list[Any] = [(row.pk, row.fact) for row in Event.objects.order_by("pk")]
    rows += [(row.pk, row.card, row.text) for row in ToolCall.objects.order_by("pk")]
    return rows + [(row.pk, row.context) for row in Run.objects.order_by("pk")]


def raw(table: str, column: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {table} ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def cleared(table: str, column: str, text: str) -> None:
    with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s", [text])


@pytest.mark.django_db
def test_every_sealed_column_is_looked_at() -> None:
    names = {column.name for column in rekey.list_columns()}
    assert {"toolcards_event.fact", "toolcards_toolcall.card", "toolcards_run.context", "toolcards_vote.note"} <= names
    assert len(names) == len(rekey.list_columns()) >= 10


@pytest.mark.django_db
def test_old_and_plain_texts_come_under_todays_key_and_say_the_same(
    a_run: Any, a_call: Any, a_new_key: Any, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_story(a_run)
    a_call("approval-responded", run="asked")
    cleared("toolcards_run", "context", Run.objects.get(pk=run.pk).context)
    run_cache.clear()
    before = read_everything()
    a_new_key()
    with pytest.raises(CommandError, match="not encrypted with the current key"):
        call_command("reseal", "--check")
    assert read_everything() == before and rekey.reseal(check=True)["plain"] == 2
    call_command("reseal", "--batch", "3")
    total = AuditRow.objects.get(act="resealed").details["texts"]
    assert (
        total["plain"] == 2
        and total["old"] == int(capsys.readouterr().out.split("Re-encrypted: ")[1].split(".")[0]) - 2
    )
    settings.SECRET_KEY_FALLBACKS = []  # no text needs the old key any more
    assert read_everything() == before
    call_command("reseal", "--check")
    call_command("reseal")
    assert AuditRow.objects.filter(act="resealed").count() == 1
    call_command("replay", "--check")


@pytest.mark.django_db
def test_what_no_key_opens_stays_as_it_is(a_run: Any, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a_story(a_run)
    before, key = raw("toolcards_event", "fact"), settings.SECRET_KEY
    settings.SECRET_KEY = "quite another key"
    call_command("reseal")
    assert raw("toolcards_event", "fact") == before and "they are unchanged" in capsys.readouterr().out
    with pytest.raises(CommandError, match="not encrypted with the current key"):
        call_command("reseal", "--check")
    settings.SECRET_KEY = key


@pytest.mark.django_db
def test_an_interrupted_run_continues_where_it_stopped(a_run: Any, a_new_key: Any) -> None:
    for number in range(4):
        a_story(a_run, f"run-{number}")
    a_new_key()
    batches = 0

    def stop(name: str, counts: Counter[str]) -> None:
        nonlocal batches
        batches += 1
        if batches == 3:
            raise KeyboardInterrupt

    whole = sum(rekey.reseal(check=True).values())
    with pytest.raises(KeyboardInterrupt):
        rekey.reseal(batch=2, watch=stop)
    report = rekey.reseal(check=True)
    assert (report["new"], report["new"] + report["old"]) == (6, whole)
    rest = rekey.reseal(batch=2)
    assert (rest["new"], rest["old"]) == (0, whole - 6)
    assert set(rekey.reseal(check=True)) == {"new"}


@pytest.mark.django_db
def test_progress_of_another_key_or_broken_progress_does_not_count(a_run: Any, a_new_key: Any) -> None:
    a_story(a_run)
    for note in ("", "[]", "{", '{"key_id": "x", "rows": {"toolcards_event.fact": 999999}}', '{"key_id": 1}'):
        a_new_key()
        rekey._get_progress_file().write_text(note)
        assert rekey.reseal()["old"] > 5
        assert set(rekey.reseal(check=True)) == {"new"}


@pytest.mark.django_db
def test_what_was_written_meanwhile_is_not_replaced(a_run: Any, a_new_key: Any) -> None:
    a_story(a_run)
    a_new_key()
    (column,) = (one for one in rekey.list_columns() if one.name == "toolcards_run.context")
    rows = column.read(None, 10)
    with allow_log_writes():
        Run.objects.update(context='{"newer": true}')
    newer = raw("toolcards_run", "context")
    group_commit.execute(rekey.ReplaceTexts(column, rows))
    assert raw("toolcards_run", "context") == newer
    with allow_log_writes():
        Run.objects.update(context=encryption.open(rows[0][1], column.name))  # what the log adds up to


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_server_at_work_changes_its_key_and_can_forget_the_old_one(tmp_path: Path, database: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    old, new = "the-old-key" * 5, "the-new-key" * 5
    with postgres(tmp_path) if database == "postgres" else nullcontext("") as url:
        settings: dict[str, Any] = {"database_url": url} if url else {}
        with Server(data, secret_key=old, **settings) as server:
            _say(server, "before")
        with Server(data, secret_key=new, secret_key_fallbacks=old, **settings) as server:
            _say(server, "between")
            assert server.manage("reseal", "--check").returncode == 1
            completed = server.manage("reseal", "--batch", "7")
            assert completed.returncode == 0 and "Re-encrypted: " in completed.stdout, completed.stderr
            _say(server, "between")
            assert server.manage("reseal", "--check").returncode == 0
        with Server(data, secret_key=new, **settings) as server:
            for run in ("before", "between"):
                (call, *_) = server.get(f"/api/v1/runs/{run}/calls")["calls"]
                assert call["input"] == {"command": WORDS}
            assert server.manage("replay", "--check").returncode == 0


def _say(server: Server, run: str) -> None:
    frames = [
        {"type": "tool.input.available", "call_id": f"c{number}", "tool": "bash", "input": {"command": WORDS}}
        for number in range(10)
    ]
    status, body, _ = server.request("POST", f"/api/v1/ingest?protocol=native&run={run}", frames)
    assert status == 200, body
