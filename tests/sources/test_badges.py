"""The health of sources: silent, failing, fine, or running tools without a decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from tests.support.gate_commands import RecordFacts
from toolcards.connect.probe import OFFLINE_TOOL, RUN_PREFIX
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.models import Delivery, Run, Source, ToolCall, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import subscriptions
from toolcards.sources import badges, capabilities


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


def codes(now: float | None = None) -> list[str]:
    return [badge.code for entry in badges.list_badges(now=now).values() for badge in entry]


def test_a_source_is_silent_failing_or_fine(a_run: Any, source: Any) -> None:
    run = a_run(
        "r", *(fact for n in range(6) for fact in (f.InputReady(f"c{n}", "t", {}, True), f.OutputFailed(f"c{n}", "x")))
    )
    assert codes() == ["failing"]
    assert "silent" in codes(time.time() + 700)
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(protocol="claude-code", updated_at=datetime.now(UTC) - timedelta(hours=2))
    assert codes() == ["failing", "silent", "fails-open"]


def test_what_ran_without_a_decision_is_an_alert(a_run: Any, source: Any, client: Client, a_person: Any) -> None:
    Webhook.objects.create(name="w", url="https://example.com/", severity="critical")
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputReady("c", 1), f.AnomalyRecorded("c", "ungoverned"))
    assert "ungoverned" in codes()
    delivery = Delivery.objects.get()
    assert (delivery.event, delivery.severity) == ("source.ungoverned", "critical")
    client.force_login(a_person("viewer"))
    assert 'data-health="ungoverned"' in client.get("/sources/").content.decode()


pytestmark = pytest.mark.django_db(transaction=True)


def test_a_program_that_was_seen_to_stop_is_not_said_to_fail_open(source: Source, a_run: Callable[..., Run]) -> None:
    with allow_log_writes():
        Run.objects.filter(pk=a_run("r").pk).update(protocol="claude-code")
    assert [badge.code for badge in badges.list_badges([source.pk])[source.pk]] == ["fails-open"]
    facts = [
        f.InputReady("away", OFFLINE_TOOL, {"checked": "its settings were read"}, True),
        f.OutputDenied("away", "no"),
    ]
    group_commit.execute(RecordFacts(source, f"{RUN_PREFIX}3", facts))
    assert badges.list_badges([source.pk])[source.pk] == []
    capabilities.gather_proofs(source)
    with allow_log_writes():
        ToolCall.objects.filter(tool=OFFLINE_TOOL).update(tool="forgotten")
    assert badges.list_badges([source.pk])[source.pk] == []
    with allow_log_writes():
        ToolCall.objects.filter(tool="forgotten").update(tool=OFFLINE_TOOL)
