"""The search index finds what reading every call finds, however calls came, changed and went."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from dashboard.search import filters
from dashboard.search.filters import CallFilters
from tests.support.gate_commands import RecordFacts
from tests.support.server import Server, until
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.text.search_signature import list_needle_bits
from toolcards.encryption import UnreadableText
from toolcards.gate.maintenance import pace
from toolcards.gate.maintenance import search_index as writing
from toolcards.gate.writer import group_commit
from toolcards.models import Run, SearchBlock, SearchSegment, ToolCall, search_index

WORDS = ["needle", "hay", "Straße", 'say "née"', "git push", "мир", "x" * 40, "\\u00e9"]
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def add_all() -> int:
    return gate.update_search_index(smallest=1)


def find(query: str, **more: str) -> list[str]:
    """Return the ids of the calls that the pages of a search show, in order."""
    names, before = [], 0
    while True:
        page = CallFilters(q=query, **more).page(3, before)
        names += [call.call_id for call in page.calls]
        if not page.more:
            return names
        before = page.more


def read_all(query: str, **more: str) -> list[str]:
    """Return the same by reading every call."""
    chosen = CallFilters(q=query, **more)
    return [call.call_id for call in chosen.rows() if chosen.matches(call)]


def build_facts(call: str, text: str) -> list[Any]:
    return [f.InputReady(call, "Bash", {"command": text}, True), f.OutputReady(call, "ok")]


@pytest.mark.django_db
def test_ended_calls_are_added_and_found_without_reading_others(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(
        "r",
        *itertools.chain(*(build_facts(f"c{number}", f"word {number}") for number in range(40))),
        *build_facts("x", "needle"),
    )
    assert add_all() == 41 and not ToolCall.objects.filter(indexed=False).exists()
    monkeypatch.setattr(filters, "SEARCHED", 1)
    assert find("needle") == ["x"] and find("NEEDLE") == ["x"] and find("no such thing") == []
    assert add_all() == 0


@pytest.mark.django_db
def test_a_term_of_many_calls_is_searched_in_order(a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "SMALL", 2)
    a_run("r", *itertools.chain(*(build_facts(f"c{number}", f"needle {number % 5}") for number in range(10))))
    add_all()
    assert search_index.find_candidates(list_needle_bits("needle")) is None
    assert len(search_index.find_candidates(list_needle_bits("needle 3")) or ()) == 2
    assert find("needle") == [f"c{number}" for number in reversed(range(10))] and find("needle 3") == ["c8", "c3"]


@pytest.mark.django_db
def test_a_few_calls_wait_for_others_and_open_calls_for_their_end(a_run: Callable[..., Run]) -> None:
    a_run("r", *build_facts("c", "needle"), f.InputReady("open", "Bash", {"command": "needle"}, True))
    assert gate.update_search_index() == 0
    assert find("needle") == ["open", "c"]
    assert add_all() == 1 and find("needle") == ["open", "c"]


class Clock:
    """Seconds that pass only while signatures are computed and rows are written, and in pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps: list[tuple[str, float]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pass_time("pause", seconds)

    def pass_time(self, what: str, seconds: float) -> None:
        self.now += seconds
        self.steps.append((what, round(seconds, 3)))


@pytest.mark.django_db
def test_the_index_rests_as_long_as_it_works(a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    a_run("r", *itertools.chain(*(build_facts(f"c{number}", "needle") for number in range(9))))
    clock, compute, apply = Clock(), writing.compute_bits, writing.AddToIndex.apply

    def compute_slowly(text: str) -> Any:
        clock.pass_time("compute", 0.1)
        return compute(text)

    def apply_slowly(self: writing.AddToIndex, tx: Any) -> None:
        clock.pass_time("write", 2.0)
        apply(self, tx)

    monkeypatch.setattr(writing, "time", clock)
    monkeypatch.setattr(pace, "time", clock)
    monkeypatch.setattr(writing, "compute_bits", compute_slowly)
    monkeypatch.setattr(writing.AddToIndex, "apply", apply_slowly)
    monkeypatch.setattr(writing, "STEP", 2)
    monkeypatch.setattr(writing, "BATCH", 4)
    computed = [("compute", 0.1), ("compute", 0.1), ("pause", 0.2)]
    assert gate.update_search_index(seconds=60, smallest=1) == 9
    batch = [*computed, *computed, ("write", 2.0), ("pause", 1.0)]
    assert clock.steps == [*batch, *batch, ("compute", 0.1), ("pause", 0.1), ("write", 2.0), ("pause", 1.0)]


@pytest.mark.django_db
def test_too_few_calls_are_not_read(a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    a_run("r", *build_facts("c", "needle"))
    monkeypatch.setattr(writing, "compute_signatures", pytest.fail)
    assert gate.update_search_index(smallest=2) == 0


@pytest.mark.django_db
def test_a_call_that_changes_is_found_by_what_it_says_now(a_run: Callable[..., Run], source: Any) -> None:
    a_run("r", f.InputReady("c", "Bash", {"command": "hay"}, True), f.CallClosed("c", "aborted"))
    assert add_all() == 1
    group_commit.execute(RecordFacts(source, "r", [f.OutputReady("c", "a needle")]))
    assert not ToolCall.objects.get().indexed and find("needle") == ["c"]
    assert add_all() == 1 and find("needle") == ["c"] == find("hay")


@pytest.mark.django_db
def test_a_call_that_changes_while_its_signature_is_computed_stays_outside(
    a_run: Callable[..., Run], source: Any
) -> None:
    a_run("r", f.InputReady("c", "Bash", {"command": "hay"}, True), f.CallClosed("c", "aborted"))
    signatures = writing.compute_signatures(ToolCall.objects.all())
    group_commit.execute(RecordFacts(source, "r", [f.OutputReady("c", "a needle")]))
    group_commit.execute(writing.AddToIndex(signatures))
    assert find("needle") == ["c"]


@pytest.mark.django_db
def test_a_call_that_is_masked_while_its_signature_is_computed_stays_outside(a_run: Callable[..., Run]) -> None:
    a_run("r", *build_facts("c", f"login {SECRET}"), f.RunEnded())
    signatures = writing.compute_signatures(ToolCall.objects.all())
    assert gate.run_retention(time.time() + 90 * 86_400).scrubbed == 1  # the revision stays the same
    group_commit.execute(writing.AddToIndex(signatures))
    assert not ToolCall.objects.get().indexed and find("secret github") == ["c"]
    assert add_all() == 1 and find("secret github") == ["c"] and find(SECRET) == []


@pytest.mark.django_db
def test_a_secret_is_not_found_by_the_index(a_run: Callable[..., Run]) -> None:
    a_run("r", *build_facts("c", f"login {SECRET}"))
    add_all()
    assert find(SECRET) == [] == find(SECRET[:12]) and find("login") == ["c"]


@pytest.mark.django_db
def test_without_its_key_the_index_excludes_no_call(a_run: Callable[..., Run]) -> None:
    a_run("r", *build_facts("c", "needle"))
    add_all()
    assert search_index.unpack_rows(UnreadableText("sealed:1:x")) == [-1] * search_index.ROWS
    SearchBlock.objects.update(rows="sealed:1:AAAA")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE toolcards_searchblock SET rows = 'sealed:1:AAAA'")
    assert find("needle") == ["c"] and find("no such thing") == []
    a_run("s", *build_facts("d", "needle"))
    assert add_all() == 1 and find("needle") == ["d", "c"]


@pytest.mark.django_db
def test_segments_without_calls_are_deleted(a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "CAPACITY", 2)
    a_run("old", *itertools.chain(*(build_facts(f"c{number}", "needle") for number in range(4))), f.RunEnded())
    a_run("new", *build_facts("c9", "needle"))
    assert add_all() == 5 and SearchSegment.objects.count() == 3
    limits = settings.TOOLCARDS.model_copy(update={"retention_days": 1})
    monkeypatch.setattr(settings, "TOOLCARDS", limits)
    assert gate.run_retention(time.time() + 2 * 86_400).deleted["calls"] == 4
    add_all()
    assert SearchSegment.objects.count() == 1 and find("needle") == ["c9"]
    assert SearchBlock.objects.count() == search_index.BLOCKS


@pytest.mark.django_db
@pytest.mark.parametrize(
    "calls",
    [ToolCall.objects.filter(indexed=False).order_by("-pk"), writing.find_waiting_calls(0, 9)],
    ids=["search", "index"],
)
def test_calls_outside_the_index_are_read_by_an_index_of_the_database(calls: QuerySet[ToolCall]) -> None:
    if connection.vendor == "postgresql":  # which reads an empty table as a whole
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    plan = calls.explain()
    assert "call_not_indexed" in plan, plan


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_search_finds_what_reading_every_call_finds(a_run: Callable[..., Run], source: Any, data: Any) -> None:
    run, calls = f"r{next(_numbers)}", 0
    for _ in range(data.draw(st.integers(1, 8))):
        step = data.draw(st.sampled_from(["call", "call", "open", "result", "index"]))
        words = " ".join(data.draw(st.lists(st.sampled_from(WORDS), max_size=3)))
        if step in ("call", "open"):
            calls += 1
            facts = build_facts(f"c{calls}", words)[: 2 if step == "call" else 1]
            group_commit.execute(RecordFacts(source, run, facts))
        elif step == "result" and calls:
            number = data.draw(st.integers(1, calls))
            group_commit.execute(RecordFacts(source, run, [f.OutputReady(f"c{number}", words)]))
        elif step == "index":
            add_all()
    for query in (*WORDS, "need", "ße", "é", "sh", "c1", "Bash"):
        assert find(query, run=run) == read_all(query, run=run), query
        assert find(query, run=run, state="output-available") == read_all(query, run=run, state="output-available")


_numbers = itertools.count()


@pytest.mark.slow
def test_a_server_adds_its_calls_by_itself(tmp_path: Path) -> None:
    frames = [
        frame
        for number in range(writing.SMALLEST)
        for frame in (
            {"type": "tool.input.available", "call_id": f"c{number}", "tool": "Read", "input": {"path": f"p{number}"}},
            {"type": "tool.output.available", "call_id": f"c{number}", "output": "done"},
        )
    ]
    count = f"SELECT count(*) FROM {SearchSegment._meta.db_table}"
    with Server(tmp_path) as server, contextlib.closing(sqlite3.connect(tmp_path / "toolcards.sqlite3")) as database:
        server.request("POST", "/api/v1/ingest?protocol=native&run=r&agent=bot&mode=observe", frames)
        until(lambda: database.execute(count).fetchone() == (1,))
