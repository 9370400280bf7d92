"""Pages cost the same on a large store: waiting calls are found by index, and runs do not add queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.cards.rendering import CardForm
from dashboard.runs.tables import MOST_CARDS, choose_forms, compute_state_bar, list_run_rows
from dashboard.search.filters import RunFilters
from toolcards.core.calls import facts as f
from toolcards.models import Run

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's plans")
@pytest.mark.parametrize("path", ["/", "/runs/", "/calls/", "/approvals/", "/settings/audit/"])
def test_no_page_scans_all_calls_for_those_that_wait(
    client: Client, a_person: Callable[..., Any], a_call: Callable[..., Any], path: str
) -> None:
    client.force_login(a_person("admin", "ada"))
    a_call(state="approval-requested")
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    of_waiting = re.compile(r"toolcards_toolcall\b.*\bWHERE\b.*\bwaiting\b", re.DOTALL)
    waiting = [query["sql"] for query in queries if of_waiting.search(query["sql"])]
    assert waiting
    for sql in waiting:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
            plan = [row[3] for row in cursor.fetchall()]
        scans = [step for step in plan if step.startswith("SCAN toolcards_toolcall")]
        assert all("call_waiting_order" in step for step in scans), (sql, plan)


def test_runs_with_failures_do_not_add_queries(a_run: Callable[..., Run]) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            list_run_rows(RunFilters())
        return len(queries)

    counts = []
    for number in range(4):
        calls = [f.InputReady(f"c{n}", "Read", {}, True) for n in range(3)]
        a_run(f"run-{number}", *calls, f.OutputFailed("c0", "it broke"), f.RunEnded(outcome="truncated"))
        counts.append(count_queries())
    assert counts == [2, 2, 2, 2]
    shares = [[(share.word, share.count) for share in row.shares] for row in list_run_rows(RunFilters())[0]]
    assert shares == [[("Failed", 1), ("No result", 2)]] * 4


def test_the_first_waiting_calls_are_cards_and_all_others_lines(a_call: Callable[..., Any]) -> None:
    done_call = a_call("output-available", call_id="done", run="done")
    waiting = [a_call("approval-requested", call_id=f"w{number}", run=f"w{number}") for number in range(MOST_CARDS + 2)]
    listed_calls = choose_forms([done_call, *waiting])
    assert [call.row for call in listed_calls if call.form is CardForm.CARD] == waiting[:MOST_CARDS]
    assert {call.form for call in listed_calls} == {CardForm.CARD, CardForm.LISTED}


def test_a_state_bar_fills_its_line() -> None:
    parts = compute_state_bar({"output-available": 3, "output-error": 1})
    assert [(part.word, part.x, part.width) for part in parts] == [("Done", 0.0, 75.0), ("Failed", 75.0, 25.0)]


def test_filters_suggest_the_tools_and_agents_there_are(viewer: Client, a_call: Any) -> None:
    for number, tool in enumerate(("Bash", "Read", "Read", '<x>"', "Re\u202ead")):
        a_call(tool=tool, call_id=f"c{number}")
    html = viewer.get("/calls/").content.decode()
    tools = html.split('<datalist id="tools">')[1].split("</datalist>")[0]
    assert re.findall(r'value="([^"]*)"', tools) == ["&lt;x&gt;&quot;", "Bash", "Read"]
