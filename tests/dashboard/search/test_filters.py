"""Filters of calls and runs: what a query asks for, the pages that match, and live lists that agree with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from django.test import Client

from dashboard.cards import labels
from dashboard.search import filters
from dashboard.search.filters import CallFilters, RunFilters
from dashboard.search.search_terms import NO_RESULT
from dashboard.search.search_words import STATUSES
from tests.support.gate_commands import RecordFacts
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import KINDS, ToolCallState
from toolcards.gate.writer import group_commit
from toolcards.models import Run, Source, ToolCall

NOTHING_SET = CallFilters()


@loop_over(("query", "expected"), [
    ("", {}), ("tool=Bash&agent=a%20%E2%80%BA%20b", {"tool": "Bash", "agent": "a › b"}),
    ("tool=a&tool=b", {"tool": "a"}), ("tool=%20a%20&run=%20", {"tool": "a"}),
    ("q=" + "x" * 500, {"q": "x" * 200}), ("before=7&page=2&set=1", {}),
    ("state=no-result&kind=execute", {"state": NO_RESULT, "kind": "execute"}), ("state=open&kind=shell", {}),
    ("state=OUTPUT-ERROR", {}), ("tool=%00", {}), ("q=a%00b&run=%00%20c", {"q": "ab", "run": "c"}), ("%ff=%fe&=&&", {}),
    ("tool=" + "%00" * 300 + "a", {"tool": "a"}),
])  # fmt: skip
def test_a_query_asks_for_known_filters_and_values(query: str, expected: dict[str, str]) -> None:
    assert CallFilters.read(query) == CallFilters(**expected)


@loop_over(("query", "expected"), [
    ("status=waiting&agent=bot&source=s", {"status": "waiting", "agent": "bot", "source": "s"}), ("status=open", {}),
    ("tool=Bash&q=x", {"q": "x"}), ("source=%00", {}),
])  # fmt: skip
def test_a_query_of_runs_asks_for_known_filters_and_values(query: str, expected: dict[str, str]) -> None:
    assert RunFilters.read(query) == RunFilters(**expected)


@loop_over("chosen", [
    *(CallFilters(state=state) for state in (*map(str, ToolCallState), NO_RESULT)),
    *(RunFilters(status=status) for status in STATUSES),
    *(CallFilters(kind=kind) for kind in KINDS),
])  # fmt: skip
def test_every_choice_is_read_from_its_query_and_has_words(chosen: CallFilters | RunFilters) -> None:
    ((name, value, rest),) = chosen.set
    assert type(chosen).read(urlencode({name: value})) == chosen and rest == ""
    (chip,) = chosen.chips
    assert chip.name == name.capitalize() and chip.word and (name == "kind" or chip.word != value)


def test_every_status_of_a_run_can_be_chosen() -> None:
    assert set(STATUSES) == set(labels.RUN_LABELS)


def test_each_filter_is_removed_by_a_query_that_keeps_the_others() -> None:
    chosen = CallFilters(q="a&b", tool="Bash", run="r/1")
    assert [name for name, _, _ in chosen.set] == ["q", "tool", "run"]
    for name, _, query in chosen.set:
        assert CallFilters.read(query) == CallFilters(**{"q": "a&b", "tool": "Bash", "run": "r/1"} | {name: ""})
    assert [(chip.name, chip.word) for chip in chosen.chips] == [("Text", "a&b"), ("Tool", "Bash"), ("Run", "r/1")]
    assert [parse_qs(chip.query).keys() for chip in chosen.chips] == [{"tool", "run"}, {"q", "run"}, {"q", "tool"}]
    assert NOTHING_SET.set == NOTHING_SET.chips == []


def input_of(call: str, tool: str = "Read", lane: str = "", text: str = "hay") -> f.InputReady:
    return f.InputReady(call, tool, {"path": text}, True, lane=lane)


@pytest.fixture
def varied_calls(a_run: Callable[..., Run], key: Any) -> list[ToolCall]:
    """Calls of two sources that differ in every filter."""
    other = Source.objects.create(name="other")
    lanes = [f.LaneStarted(lane="s", name="sub_a"), f.LaneStarted(lane="S", name="Sub_a")]
    a_run(
        "one", *lanes, input_of("c1", "Bash", "S", "needle"), f.OutputReady("c1", "ok"), input_of("c2", "bash"),
        f.OutputFailed("c2", "broke"), input_of("c3", lane="s"), f.RunEnded(outcome="aborted"),
    )  # fmt: skip
    lanes = [f.RunStarted(agent="subXa")]
    group_commit.execute(RecordFacts(other, "two", [*lanes, input_of("c4", "Bash"), input_of("needle-5")]))
    return list(ToolCall.objects.not_removed().select_related("run", "run__source").order_by("-pk"))


CHOICES = {
    "q": (
        "", "NEEDLE", "hay", "tool:bash", "-tool:read", "tool:re*", "agent:sub_a", "state:failed", "-state:no-result",
        "path:hay", "-path:needle needle", "writes:hay", "reads:hay since:1h", "until:1h", "risk:low", "-risk:low",
        "by:ana", "-by:ana kind:execute", "source:other -run:one", "hay agent:bot -agent:sub_a",
    ), "tool": ("", "Bash"), "agent": ("", "bot", "sub_a", "›"), "kind": ("", "execute"),
    "source": ("", "other"), "run": ("", "one"), "state": ("", "output-error", NO_RESULT, "input-available"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.django_db
def test_pages_list_the_calls_that_live_lists_show(varied_calls: list[ToolCall]) -> None:
    pairs = itertools.combinations(CHOICES, 2)
    combinations = {
        CallFilters(**{first: one, second: two})
        for first, second in pairs
        for one in CHOICES[first]
        for two in CHOICES[second]
    }
    lengths = set()
    for chosen in combinations:
        listed_calls = chosen.page(50).calls
        live_calls = [call for call in varied_calls if chosen.matches(call) and chosen.matches_now(call)]
        assert listed_calls == live_calls, chosen
        lengths.add(len(listed_calls))
    assert lengths >= {0, 1, 2, 5}


@pytest.mark.django_db
@loop_over(("chosen", "names"), [
    (CallFilters(agent="sub_a"), ["c3"]), (CallFilters(agent="Sub_a"), ["c1"]), (CallFilters(agent="%"), []),
    (CallFilters(agent="bot ›"), ["c3", "c1"]), (CallFilters(agent="bot"), ["c3", "c2", "c1"]),
    (CallFilters(tool="Bash"), ["c4", "c1"]),
    (CallFilters(q="needle"), ["needle-5", "c1"]), (CallFilters(state="output-error"), ["c2"]),
    (CallFilters(state=NO_RESULT), ["c3"]),
])  # fmt: skip
def test_a_filter_takes_letters_and_signs_as_they_are(
    varied_calls: list[ToolCall], chosen: CallFilters, names: list[str]
) -> None:
    assert [call.call_id for call in chosen.page(50).calls] == names


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["", "hay"])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_pages_have_every_call_once_and_none_is_empty(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, query: str, is_indexed: bool
) -> None:
    a_run("r", *(input_of(f"c{number}") for number in range(6)))
    monkeypatch.setattr(filters, "CHUNK", 2)
    if is_indexed:
        monkeypatch.setattr(filters, "list_needle_bits", lambda text: [frozenset({1})])
        monkeypatch.setattr(filters.search_index, "find_candidates", lambda needles, before: [])
    for size in (1, 3, 6, 7):
        names, pages, before = [], 0, 0
        while page := CallFilters(q=query).page(size, before):
            names += [call.call_id for call in page.calls]
            pages, before = pages + 1, page.more
            if not page.more:
                break
        assert names == [f"c{number}" for number in reversed(range(6))] and pages == -(-6 // size), size


@pytest.mark.django_db
def test_runs_match_all_filters_newest_first(a_run: Callable[..., Run]) -> None:
    a_run("one", f.RunEnded(outcome="finished"))
    a_run("two")
    a_run("three")
    names = {
        query: [run.name for run in RunFilters.read(query).rows()]
        for query in ("", "status=running", "status=finished", "agent=bot", "agent=bo", "source=x", "status=error")
    }
    assert names == {
        "": ["three", "two", "one"], "status=running": ["three", "two"], "status=finished": ["one"],
        "agent=bot": ["three", "two", "one"], "agent=bo": [], "source=x": [], "status=error": [],
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("word", ["needle", "dl"])  # the index tells only of long words
def test_a_search_that_looked_long_enough_says_so_and_can_be_gone_on_with(
    a_run: Callable[..., Run], client: Client, a_person: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(filters, "SEARCHED", 4)
    monkeypatch.setattr(filters, "CHUNK", 3)
    a_run("r", *(input_of(f"c{n}", text="needle" if n == 2 else "hay") for n in range(10)))
    first = CallFilters(q=word).page(50)
    assert (first.calls, first.searched) == ([], 4)
    second = CallFilters(q=word).page(50, first.more)
    third = CallFilters(q=word).page(50, second.more)
    assert [call.call_id for call in second.calls + third.calls] == ["c2"] and third.more == 0
    client.force_login(a_person("viewer"))
    page = client.get(f"/calls/?q={word}").content.decode()
    assert "4 searched so far" in page and f"before={first.more}" in page and "No call matches" not in page
