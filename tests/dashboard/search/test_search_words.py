"""Suggested words are understood, and none misleads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.search.filters import RunFilters
from dashboard.search.search_terms import parse_search
from dashboard.search.search_words import list_filter_names, list_run_words, list_search_words
from toolcards.core.calls import facts as f
from toolcards.models import Run, Source
from toolcards.models.write_guard import allow_log_writes


def test_every_suggestion_is_understood() -> None:
    for word in list_search_words(["Bash"], ["boss › helper"]):
        search = parse_search(word)
        assert word.endswith(":") or (search.terms and not search.faults), word


@pytest.mark.django_db
def test_names_of_the_latest_calls_are_suggested_without_misleading_ones(a_run: Callable[..., Run]) -> None:
    a_run("r", *(f.InputReady(f"c{n}", tool, {}, True) for n, tool in enumerate(["Bash", "Re\u202ead", "Bash"])))
    assert list_filter_names()["tools"] == ["Bash"]


pytestmark = pytest.mark.django_db


@pytest.fixture
def three_runs(a_run: Callable[..., Run]) -> None:
    a_run("one", f.InputReady("c", "Bash", {}, True), f.RunEnded(outcome="finished"))
    with allow_log_writes():
        Run.objects.filter(name="one").update(title="Fix the coupon total")
    a_run("two", f.RunEnded(outcome="error"))
    a_run("three", source=Source.objects.create(name="other"))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["three", "two", "one"]), ("coupon", ["one"]), ("tw", ["two"]), ("status:failed", ["two"]),
        ("-status:failed", ["three", "one"]), ("tool:bash", ["one"]), ("-tool:bash source:other", ["three"]),
        ("agent:bot since:1h", ["three", "two", "one"]), ("agent:other-bot", []), ("until:1h", []),
        ("status:finished coupon", ["one"]), ("status:bogus", ["three", "two", "one"]),
    ],
)  # fmt: skip
def test_runs_match_every_word(three_runs: None, query: str, names: list[str]) -> None:
    assert [run.name for run in RunFilters(q=query).rows()] == names


def test_the_page_searches_and_names_what_it_did_not_understand(three_runs: None, viewer: Client) -> None:
    page = viewer.get("/runs/", {"q": "coupon since:soon"}).content.decode()
    assert "/runs/one/" in page and "/runs/two/" not in page and "Not understood: since:soon" in page


def test_every_suggestion_is_understood_for_run_terms(three_runs: None, viewer: Client) -> None:
    words: list[Any] = list_run_words(["bot"], ["my source"])
    assert all(word.endswith(":") or not RunFilters(q=word).search.faults for word in words)
    assert {"status:failed", "agent:bot", 'source:"my source"'} <= set(words)
