"""Runs are found by name and source, and their log can only grow."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.db import IntegrityError, transaction
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.calls.facts import AnomalyRecorded, InputReady, RunStarted, dump
from toolcards.encryption import DecryptionError, UnreadableText
from toolcards.models import AgentKey, Event, Run
from toolcards.models.runs import (
    BEING_DELETED,
    CANNOT_BE_OPENED,
    AmbiguousRun,
    LogIsFinal,
    decode_run_name,
    get_run_path,
)
from toolcards.models.write_guard import allow_log_writes


@pytest.mark.django_db
def test_a_run_is_found_by_its_name_and_two_of_a_name_by_their_sources(a_run: Any) -> None:
    first = a_run("r")
    twin = a_run("r", source=AgentKey.objects.issue("a twin")[0].source)
    a_run("other")
    assert Run.objects.only_one("r", "a twin") == twin and Run.objects.only_one("r", first.source.name) == first
    with pytest.raises(AmbiguousRun, match="2 sources have a run named r") as error:
        Run.objects.only_one("r")
    assert error.value.runs == [twin, first] and error.value.sources == sorted(["a twin", first.source.name])
    for name, source in (("R", ""), ("r", "nobody"), ("", "")):
        with pytest.raises(Run.DoesNotExist):
            Run.objects.only_one(name, source)


@pytest.mark.django_db
def test_a_source_has_one_run_of_a_name(a_run: Any) -> None:
    run = a_run("r")
    with allow_log_writes(), pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.create(source=run.source, name="r")


@pytest.mark.django_db
def test_a_run_is_active_while_it_runs_or_waits(a_run: Any, a_call: Any) -> None:
    a_run("running")
    a_call("approval-requested", run="waiting")
    run = a_run("ended")
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(status="finished")
    assert {run.name for run in Run.objects.active()} == {"running", "waiting"}
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(status="running")


SIGNS = "ab/\\?#%&=+;:@. \"'<>\u00e9\u2028\U0001f600"


@draw(100)
@example(name="../a/b?c#d", source="", query={})
@example(name="..", source="a", query={})
@example(name=".", source="", query={})
@given(st.text(SIGNS, min_size=1), st.text(SIGNS), st.sampled_from([{}, {"page": 2}]))
def test_a_path_names_exactly_its_run_and_source(name: str, source: str, query: dict[str, int]) -> None:
    parts = urlsplit(get_run_path(name, source, **query))
    head, *rest = parts.path.removeprefix("/runs/").split("/")
    assert decode_run_name(unquote(head)) == name and rest == [""] and not parts.fragment
    assert unquote(head) not in {".", ".."}
    expected = {name: [str(value)] for name, value in ({"source": source} | query).items() if value != ""}
    assert parse_qs(parts.query, keep_blank_values=True) == expected


def test_a_run_in_deletion_has_a_name_that_no_sender_can_use() -> None:
    assert Run(name=f"{BEING_DELETED}r").is_being_deleted and not Run(name="r").is_being_deleted
    assert not BEING_DELETED.isprintable()


@loop_over(
    "text, counts",
    [
        ('{"output-available": 2}', {"output-available": 2}), ('{"a": "3"}', {"a": 3}), ("{}", {}), ("", {}),
        ("[]", {}),
        ("null", {}), ('{"a": null}', {}), ('{"a": "x"}', {}), ("[" * 100_000, {}),
    ],
)  # fmt: skip
def test_damaged_counts_hide_nothing_else(text: str, counts: dict[str, int]) -> None:
    assert Run(counts=text).count_by_state == counts


# ---------------------------------------------------------------- the log


@pytest.mark.django_db
def test_events_are_in_order_and_found_by_the_type_of_their_fact(a_run: Any) -> None:
    run = a_run("r", InputReady("c", "bash", {"command": "ls"}, True))
    events = list(Event.objects.after(run, 0))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert list(Event.objects.after(run.pk, 1)) == events[1:] and not Event.objects.after(run, len(events))
    for kind in (RunStarted.type, InputReady.type):
        events_of_type = list(Event.objects.of_type(kind).order_by("seq"))
        assert events_of_type == [event for event in events if event.decoded_fact.type == kind]
        assert [*Event.objects.but_type(kind).order_by("seq")] == [
            event for event in events if event not in events_of_type
        ]
    assert not Event.objects.of_type(InputReady.type[:-1])  # the beginning of a type is another type


@pytest.mark.django_db
def test_no_event_is_changed_or_deleted_even_by_the_writer(a_run: Any) -> None:
    a_run("r")
    with allow_log_writes():
        with pytest.raises(LogIsFinal):
            Event.objects.update(applied=False)
        with pytest.raises(LogIsFinal):
            Event.objects.all().delete()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (UnreadableText(""), "position 7 of the log cannot be decrypted"),
        ("{", "cannot read position 7"),
        ("[]", "cannot read position 7"),
        ("null", "cannot read position 7"),
        ('{"type":"of-the-future"}', "cannot read position 7"),
    ],
)
def test_a_fact_that_cannot_be_read_is_an_anomaly_at_its_time(text: str, reason: str) -> None:
    event = Event(seq=7, at=5.0, fact=text)
    with pytest.raises(DecryptionError, match=reason):
        event.decoded_fact  # noqa: B018
    assert event.readable_fact == AnomalyRecorded("", CANNOT_BE_OPENED, at=5.0)


def test_a_fact_is_read_as_it_was_written() -> None:
    fact = InputReady("c", "bash", {"command": "ls"}, True, at=5.0)
    assert Event(seq=7, at=5.0, fact=dump(fact)).readable_fact == fact
