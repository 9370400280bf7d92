"""Sources that fall silent, fail or would run things unasked: told once when it begins, and once when it is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.gate.writer import group_commit
from toolcards.models import Delivery, Run, Source, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import formats, source_alerts, subscriptions

pytestmark = pytest.mark.django_db
MINUTES = 60.0


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


def hears(*events: str, name: str = "w", **more: Any) -> Webhook:
    import json

    return Webhook.objects.create(name=name, url="https://example.com/", events=json.dumps(events), **more)


def list_events() -> list[str]:
    return list(Delivery.objects.order_by("id").values_list("event", flat=True))


def check_sources(later: float = 0.0) -> list[str]:
    """Return the alerts of one check, so many minutes from now."""
    before = len(list_events())
    source_alerts.write_source_alerts(time.time() + later * MINUTES)
    return list_events()[before:]


def say(source: Source, run: str, *facts: Any) -> None:
    from tests.support.gate_commands import RecordFacts

    group_commit.execute(RecordFacts(source, run, list(facts)))


ALERTS = (h.SILENT, h.FAILING, h.FAILS_OPEN, h.RECOVERED)


def test_lost_contact_is_sent_once_and_so_is_its_end(a_run: Any, source: Source) -> None:
    hears(*ALERTS)
    a_run("r", f.InputReady("c", "bash", {}, True))
    a_run("another", f.InputReady("c", "bash", {}, True))
    assert check_sources() == []
    assert check_sources(11) == [h.SILENT] and check_sources(11) == [] and check_sources(25) == []
    say(source, "r", f.TextDelta("I am back"))
    say(source, "another", f.RunEnded())
    assert check_sources() == [h.RECOVERED] and check_sources() == []
    assert check_sources(11) == [h.SILENT] and check_sources(30) == []
    ids = set(Delivery.objects.values_list("event_id", flat=True))
    assert ids == {f"evt_s{source.pk}-silent-{n}" for n in ("1", "1-over", "2")}


def test_a_run_that_waits_for_a_person_is_not_silent(policy: Any, an_approver: Any, source: Source) -> None:
    from toolcards import gate

    hears(*ALERTS)
    policy({"default": "ask"})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert check_sources(11) == []


def test_a_failing_source_is_sent_once_until_it_recovers(a_run: Any, source: Source) -> None:
    hears(*ALERTS)
    for number in range(5):
        call = f"c{number}"
        a_run(f"r{number}", f.InputReady(call, "bash", {}, True), f.OutputFailed(call, "no", "timeout"), f.RunEnded())
    assert check_sources() == [h.FAILING] and check_sources() == []
    for number in range(6):
        a_run(f"ok{number}", f.InputReady("c", "bash", {}, True), f.OutputReady("c", 1), f.RunEnded())
    assert check_sources() == [h.RECOVERED] and check_sources() == []


def test_a_source_that_fails_open_is_sent_only_once(a_run: Any, source: Source) -> None:
    hears(*ALERTS)
    a_run("r", f.RunEnded())
    with allow_log_writes():
        Run.objects.update(protocol="claude-code")
    assert check_sources() == [h.FAILS_OPEN] and check_sources() == [] and check_sources(60) == []
    with allow_log_writes():
        Run.objects.update(protocol="native")
    assert check_sources() == []


def test_each_receiver_gets_the_events_that_it_chose(a_run: Any, source: Source) -> None:
    hears(h.FAILING, name="other event")
    hears(h.SILENT, h.RECOVERED, name="other source", sources=f"[{source.pk + 1}]")
    hears(h.SILENT, name="louder", severity="high")
    ours = hears(h.SILENT, h.RECOVERED, name="ours")
    a_run("r", f.InputReady("c", "bash", {}, True))
    assert check_sources(11) == [h.SILENT]
    assert Delivery.objects.get().webhook == ours


def test_without_receivers_nothing_is_checked(a_run: Any, django_assert_num_queries: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {}, True))
    subscriptions.list_webhooks()
    with django_assert_num_queries(0):
        assert source_alerts.write_source_alerts(time.time() + 11 * MINUTES) == 0


@pytest.mark.parametrize("event", ALERTS)
@pytest.mark.parametrize("template", list(formats.TEMPLATES))
def test_every_alert_has_words_and_a_link(event: str, template: str) -> None:
    fields = {"event": event, "source": "release-bot", "why": "Because.", "badge": "silent", "url": "/sources/3/"}
    message = formats.build_message(fields, "medium")
    assert message.title.startswith("release-bot ") and message.text and message.link.endswith("/sources/3/")
    body, headers = formats.TEMPLATES[template](message)
    assert b"/sources/3/" in body + str(headers).encode() and event.encode() not in body
