"""What runs by the clock: it starts once, continues after a failure, and verifies the audit trail now and then."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from tests.support.audit_trail import sql, write_five_acts
from tests.support.id_counters import reset_counters
from tests.support.server import PATIENCE
from toolcards import doorbell, outages
from toolcards.audit import anchor, verification
from toolcards.core.calls import tool_events as h
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, Delivery, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import source_alerts, subscriptions
from toolcards.transports.background import activity, anchor_copies, scheduler
from toolcards.transports.background.scheduler import run_rounds

asql = sync_to_async(sql)


@pytest.fixture(autouse=True)
def in_use() -> Iterator[None]:
    """Someone uses this process, however long earlier tests took."""
    with activity.use():
        yield


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


# ---------------------------------------------------------------- start and end


@pytest.mark.django_db(transaction=True)
async def test_one_clock_runs_on_an_event_loop_and_nothing_of_it_stays() -> None:
    before = asyncio.all_tasks()
    scheduler.start()
    clock = scheduler._tasks[asyncio.get_running_loop()]
    scheduler.start()
    assert scheduler._tasks[asyncio.get_running_loop()] is clock
    await asyncio.sleep(0)
    assert asyncio.all_tasks() > before | {clock}
    await scheduler.stop()
    await scheduler.stop()
    assert clock.cancelled()
    await wait_until(_is_quiet(before))


def _is_quiet(before: set[Any]) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return asyncio.all_tasks() == before

    return check


@pytest.mark.django_db(transaction=True)
async def test_a_clock_that_ended_is_started_again() -> None:
    scheduler.start()
    first = scheduler._tasks[asyncio.get_running_loop()]
    first.cancel()
    await asyncio.wait({first})
    scheduler.start()
    assert not scheduler._tasks[asyncio.get_running_loop()].done()
    await scheduler.stop()


# ---------------------------------------------------------------- rounds


@pytest.mark.django_db(transaction=True)
async def test_the_clock_ends_what_is_overdue_also_after_a_round_that_failed(
    a_call: Any, limits: Any, caplog: pytest.LogCaptureFixture
) -> None:
    limits(grace=0.2)
    await sync_to_async(a_call)("approval-requested")
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)

    async def is_expired() -> bool:
        return (await Approval.objects.aget()).state == "expired"

    async def has_failed() -> bool:
        return "this round failed" in caplog.text

    await asql("ALTER TABLE toolcards_approval RENAME TO away")
    scheduler.start()
    try:
        await wait_until(has_failed)
        await asql("ALTER TABLE away RENAME TO toolcards_approval")
        await wait_until(is_expired)
    finally:
        await scheduler.stop()


ROUNDS = [
    (scheduler._run_alerts, source_alerts, "CHECK_SECONDS", "toolcards_source"),
    (scheduler._run_retention, scheduler, "RETENTION_SECONDS", "toolcards_run"),
    (scheduler._run_verification, scheduler, "GLANCE_SECONDS", "toolcards_auditrow"),
    (scheduler._run_search_index, scheduler, "INDEX_SECONDS", "toolcards_toolcall"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("rounds", "module", "pause", "table"), ROUNDS)
async def test_a_round_that_fails_is_logged_and_the_next_one_comes(
    rounds: Any, module: Any, pause: str, table: str, monkeypatch: pytest.MonkeyPatch, limits: Any,
    caplog: pytest.LogCaptureFixture, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, pause, 0.01)
    limits(audit_copy=(str(tmp_path / "copies"),), retention_days=1)
    await Webhook.objects.acreate(name="w", url="https://example.com/", events=json.dumps([h.AUDIT_BROKEN]))
    subscriptions.clear_cache()
    await asql(f"ALTER TABLE {table} RENAME TO away")

    async def has_failed_twice() -> bool:
        return len([record for record in caplog.records if record.name == scheduler.__name__ and record.exc_info]) > 1

    work = asyncio.create_task(rounds())
    try:
        await wait_until(has_failed_twice)
    finally:
        work.cancel()
        await asyncio.wait({work})
        await asql(f"ALTER TABLE away RENAME TO {table}")
    assert work.cancelled()


@pytest.mark.django_db(transaction=True)
async def test_copies_of_the_anchor_are_sent_in_rounds(
    five: None, monkeypatch: pytest.MonkeyPatch, limits: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(anchor_copies, "CHECK_SECONDS", 0.01)
    copies = tmp_path / "copies"
    limits(audit_copy=(str(copies),), audit_copy_rows=1)

    async def is_sent() -> bool:
        return copies.exists()

    work = asyncio.create_task(scheduler._run_anchor_copies())
    await wait_until(is_sent)
    work.cancel()
    await asyncio.wait({work})
    anchor_copies.destinations.clear()


async def test_without_a_place_for_copies_no_round_of_them_runs() -> None:
    async with asyncio.timeout(PATIENCE):
        await scheduler._run_anchor_copies()


@pytest.mark.django_db(transaction=True)
async def test_idle_runs_that_are_too_large_are_dropped_without_another_commit(
    a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await sync_to_async(a_run)("r")
    assert run_cache.get(run.pk) is not None
    monkeypatch.setattr(scheduler, "MEMORY_SECONDS", 0.01)
    monkeypatch.setattr(run_cache, "MAX_SIZE", -1)
    monkeypatch.setattr(run_cache, "IDLE", 0.0)

    async def is_dropped() -> bool:
        return run_cache.get(run.pk) is None

    work = asyncio.create_task(scheduler._run_memory())
    await wait_until(is_dropped)
    work.cancel()
    await asyncio.wait({work})


# ---------------------------------------------------------------- the audit trail


@pytest.fixture
def five(db: None) -> None:
    """Five rows of the audit trail, and the anchor at the fifth."""
    reset_counters()
    write_five_acts()


@pytest.mark.django_db
def test_the_clock_looks_at_the_end_every_minute_and_tells_once(five: None, caplog: pytest.LogCaptureFixture) -> None:
    subscriptions.clear_cache()
    Webhook.objects.create(name="w", url="https://example.com/", events=json.dumps([h.AUDIT_BROKEN]))
    verification.verify_and_store()
    assert scheduler.verify_if_due() is None and "audit" not in caplog.text
    anchor.get_path().unlink()
    finding = scheduler.verify_if_due()
    assert finding and finding.kind == "unanchored" and "is missing" in caplog.text
    assert scheduler.verify_if_due() is None
    scheduler.source_alerts.write_audit_alert(finding)
    delivery = Delivery.objects.get()
    assert (delivery.event, delivery.severity, delivery.decoded_payload["url"]) == (
        "audit.broken",
        "critical",
        "/settings/audit/",
    )
    subscriptions.clear_cache()


@pytest.mark.django_db
def test_the_clock_verifies_once_an_hour_and_complains(five: None, caplog: pytest.LogCaptureFixture) -> None:
    assert scheduler.verify_if_due() and verification.get_last_result()
    assert scheduler.verify_if_due() is None
    sql("DELETE FROM toolcards_auditrow WHERE seq = 2")
    result = scheduler.verify_if_due(time.time() + scheduler.VERIFICATION_SECONDS + 1)
    assert result and result.fault and "row 2 is missing" in caplog.text
    assert verification.get_last_result() and verification.get_last_result().finding == result


@pytest.mark.django_db
def test_an_anchor_that_can_be_written_again_is_found_at_once(five: None) -> None:
    text = anchor.get_path().read_text()
    anchor.get_path().unlink()
    finding = scheduler.verify_if_due()
    assert finding and finding.kind == "unanchored"
    anchor.get_path().write_text(text)
    finding = scheduler.verify_if_due()
    assert finding and finding.fault == "" and scheduler.verify_if_due() is None


class FakeTurns:
    """Turns that raise these errors in their first rounds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begin_count, self.is_closed = 0, False

    def begin(self) -> None:
        self.begin_count += 1
        if self.errors:
            raise self.errors.pop(0)

    def close(self) -> None:
        self.is_closed = True


async def wait_for_rounds(turns: FakeTurns, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while turns.begin_count < count:
            await asyncio.sleep(0.01)


async def test_a_ring_begins_a_round_before_the_pause_is_over() -> None:
    turns = FakeTurns()
    task = asyncio.create_task(run_rounds([turns], lambda: 10 * PATIENCE))
    for count in (1, 2):
        while turns.begin_count < count:
            doorbell.ring([7])
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns.is_closed


@pytest.mark.parametrize("error", [OperationalError("the connection is closed"), ValueError("odd")])
async def test_a_round_that_fails_is_followed_by_others(error: Exception) -> None:
    turns, others = FakeTurns(error), FakeTurns()
    task = asyncio.create_task(run_rounds([turns, others], lambda: 0.01))
    await wait_for_rounds(turns, 3)
    outages.report_success(outages.SENDING)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns.is_closed and others.is_closed and turns.errors == [] and others.begin_count >= 2
