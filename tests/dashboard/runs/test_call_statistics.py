"""The Tools and Agents pages: what is counted, and in which order."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.runs import call_statistics
from dashboard.runs.call_statistics import CountedCalls, compute_percentile, compute_statistics
from dashboard.search.filters import CallFilters
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall
from toolcards.models.write_guard import allow_log_writes

START = datetime(2026, 1, 1, tzinfo=UTC)


def group(
    name: str = "bash",
    state: str = "output-available",
    *,
    seconds: float = 1.0,
    soft: bool = False,
    was_asked: bool = False,
) -> CountedCalls:
    return CountedCalls(name, state, soft, was_asked, is_open=False, microseconds=round(seconds * 1e6))


def test_each_end_counts_once_under_its_own_name() -> None:
    groups = [
        group(), group(state="output-error"), group(state="output-error", soft=True),
        group(state="output-denied", was_asked=True), group("edit"),
        CountedCalls("bash", "input-streaming", False, False, True),
    ]  # fmt: skip
    bash, edit = compute_statistics(groups)
    assert (bash.name, bash.calls, bash.failed, bash.approvals, bash.denied, bash.open) == ("bash", 5, 1, 1, 1, 1)
    assert bash.failure_rate == "25 %" and (edit.name, edit.calls, edit.failure_rate) == ("edit", 1, "0 %")


def test_a_call_that_waited_for_a_person_or_never_ended_has_no_duration() -> None:
    groups = [group(seconds=100, was_asked=True), group(state="output-denied"), group(state="output-error", soft=True)]
    (row,) = compute_statistics(groups)
    assert row.durations == [] and row.p50 == row.p95 == "" and row.histogram == []


def test_the_bars_of_a_histogram_hold_every_duration() -> None:
    seconds = (0.0, 0.01, 0.02, 0.5, 9, 59, 61, 5_000)
    (row,) = compute_statistics(group(seconds=value) for value in seconds)
    assert [bar.count for bar in row.histogram] == [2, 1, 1, 1, 1, 2]
    assert all(bar.y >= 0 and bar.y + bar.height == pytest.approx(16) for bar in row.histogram)


@pytest.mark.parametrize("order", call_statistics.SORT_ORDERS)
def test_the_rows_are_sorted_by_each_column(order: str) -> None:
    most = [group("most", "output-error"), group("most", "output-denied", was_asked=True), group("most", seconds=9)]
    rows = compute_statistics([group("least"), *most, group("least", seconds=0.1)], order)
    assert [row.name for row in rows] == ["most", "least"]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 0.99))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    value = compute_percentile(values, share)
    assert value in values
    assert sum(other <= value for other in values) >= share * len(values) - 1e-9
    assert sum(other < value for other in values) < share * len(values) + 1e-9
    if len(values) % 2:
        assert compute_percentile(values, 0.5) == statistics.median(values)


def test_calls_that_are_alike_count_each() -> None:
    alike = group(seconds=2)._replace(calls=3)
    (row,) = compute_statistics([alike, group(state="output-error", soft=True)._replace(calls=2), group(seconds=1)])
    assert (row.calls, row.failed, row.durations) == (6, 0, [1.0, 2.0, 2.0, 2.0])


@pytest.mark.django_db
def test_the_database_counts_and_measures_to_the_microsecond(a_call: Callable[..., ToolCall]) -> None:
    spans = [timedelta(0), timedelta(microseconds=1), timedelta(seconds=61, microseconds=999_999), timedelta(days=40)]
    starts = [START, START + timedelta(microseconds=120_000), datetime(2025, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    expected = []
    for number, (start, span) in enumerate(product(starts, [*spans, timedelta(seconds=-1)])):
        call = a_call("output-available", call_id=f"c{number}")
        with allow_log_writes():
            ToolCall.objects.filter(pk=call.pk).update(started_at=start, finished_at=start + span)
        expected.append(span // timedelta(microseconds=1))
    groups = call_statistics.fetch_groups(call_statistics.COLUMNS["tools"], None)
    assert sorted(group.microseconds for group in groups for _ in range(group.calls)) == sorted(expected)
    assert len(groups) == 5 and {group[:5] for group in groups} == {("bash", "output-available", False, False, False)}


@pytest.mark.django_db
def test_calls_without_a_duration_are_counted_without_one(a_call: Callable[..., ToolCall]) -> None:
    for number, state in enumerate(("input-streaming", "output-denied", "output-error", "input-available")):
        a_call(state, call_id=f"c{number}")
    a_call("approval-requested", call_id="waits")
    groups = {group.state: group for group in call_statistics.fetch_groups(call_statistics.COLUMNS["tools"], None)}
    assert [state for state, group in groups.items() if group.microseconds is not None] == ["output-error"]
    assert {state for state, group in groups.items() if group.is_open} == {
        "input-streaming", "input-available", "approval-requested",
    }  # fmt: skip
    assert groups["approval-requested"].was_asked and not groups["input-available"].was_asked


# ---------------------------------------------------------------- pages


@pytest.mark.django_db
@pytest.mark.parametrize("page", ["/calls/tools/", "/calls/agents/"])
def test_a_page_without_calls_says_so(viewer: Client, page: str) -> None:
    assert "No calls yet" in viewer.get(page).content.decode()


@pytest.mark.django_db
def test_the_tools_page_counts_calls_and_leads_to_them(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available", tool="mcp__a&b<i>", call_id="one")
    a_call("output-error", tool="mcp__a&b<i>", call_id="two")
    html = viewer.get("/calls/tools/").content.decode()
    assert 'href="/calls/?tool=mcp__a%26b%3Ci%3E"' in html and "<i>" not in html
    assert "50 %" in html and "2 calls counted" in html
    page = viewer.get("/calls/?tool=mcp__a%26b%3Ci%3E").content.decode()
    assert set(re.findall(r'data-call-id="(\w+)"', page)) == {"one", "two"}


@pytest.mark.django_db
def test_only_who_may_edit_the_policy_is_offered_a_rule(
    client: Client, a_person: Callable[..., Any], a_call: Callable[..., ToolCall]
) -> None:
    a_call("output-available", tool="bash")
    client.force_login(a_person("viewer", "vera"))
    assert "/policy/rules/new/" not in client.get("/calls/tools/").content.decode()
    client.force_login(a_person("admin", "anna"))
    page = client.get("/calls/tools/").content.decode()
    assert 'href="/policy/rules/new/?tool=bash"' in page
    assert 'value="bash"' in client.get("/policy/rules/new/?tool=bash").content.decode()


@pytest.mark.django_db
def test_the_range_leaves_older_calls_out_and_an_unknown_one_is_a_day(
    viewer: Client, a_call: Callable[..., ToolCall]
) -> None:
    a_call("output-available", tool="recent", call_id="one")
    old = a_call("output-available", tool="ancient", call_id="two")
    with allow_log_writes():
        ToolCall.objects.filter(pk=old.pk).update(started_at=datetime.now(UTC) - timedelta(days=2))
    for query, names in (("", {"recent"}), ("?range=x&sort=x", {"recent"}), ("?range=7d", {"recent", "ancient"})):
        html = viewer.get(f"/calls/tools/{query}").content.decode()
        assert {name for name in ("recent", "ancient") if f"?tool={name}" in html} == names
    assert "?range=all" in viewer.get("/calls/tools/?range=1h").content.decode()


@pytest.mark.django_db
def test_only_the_newest_calls_are_counted(
    viewer: Client, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        a_call("output-available", tool=f"tool-{number}", call_id=f"c{number}")
    monkeypatch.setattr(call_statistics, "MAX_CALLS", 3)
    html = viewer.get("/calls/tools/").content.decode()
    assert "3 calls counted, the newest 3" in " ".join(html.split()) and "tool-0" not in html


@pytest.mark.django_db
def test_the_agents_page_leads_to_the_runs_of_an_agent(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available", run="one", call_id="one")
    a_call("output-available", run="two", call_id="two")
    with allow_log_writes():
        Run.objects.filter(name="one").update(agent="coder")
        Run.objects.filter(name="two").update(agent="")
    source = Run.objects.get(name="two").source.name
    html = viewer.get("/calls/agents/").content.decode()
    assert 'href="/runs/?agent=coder"' in html and f'href="/runs/?agent={quote(source)}"' in html


@pytest.mark.django_db
def test_where_no_agent_is_named_the_source_is_the_agent(
    viewer: Client, a_run: Callable[..., Run], a_call: Callable[..., ToolCall]
) -> None:
    a_run("one", f.RunStarted(agent="coder"), f.InputReady("one", "bash", {}, True))
    source = a_call("approval-requested", run="two", call_id="two").run.source.name
    for agent, expected_runs in (("coder", {"one"}), (source, {"two"}), ("other", set())):
        html = viewer.get("/runs/", {"agent": agent}).content.decode()
        assert {run for run in ("one", "two") if re.search(rf"/runs/{run}\b", html)} == expected_runs
        filters = CallFilters(agent=agent)
        assert {call.run.name for call in filters.rows()} == expected_runs
        assert {call.run.name for call in ToolCall.objects.all() if filters.matches(call)} == expected_runs
    assert f'value="{source}"' in viewer.get("/runs/").content.decode()
    assert Run.objects.get(name="two").mode == "gate"
