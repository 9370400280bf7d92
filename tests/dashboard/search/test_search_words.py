"""Suggested words are understood, and none misleads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dashboard.search.search_terms import parse_search
from dashboard.search.search_words import list_filter_names, list_search_words
from toolcards.core.calls import facts as f
from toolcards.models import Run


def test_every_suggestion_is_understood() -> None:
    for word in list_search_words(["Bash"], ["boss › helper"]):
        search = parse_search(word)
        assert word.endswith(":") or (search.terms and not search.faults), word


@pytest.mark.django_db
def test_names_of_the_latest_calls_are_suggested_without_misleading_ones(a_run: Callable[..., Run]) -> None:
    a_run("r", *(f.InputReady(f"c{n}", tool, {}, True) for n, tool in enumerate(["Bash", "Re\u202ead", "Bash"])))
    assert list_filter_names()["tools"] == ["Bash"]
