"""The search language: what is a term, what is text, and which faults are named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.search.search_terms import NO_RESULT, STATES, SearchTerm, parse_search, read_time
from toolcards.core.calls.card import ToolCallState


@pytest.mark.parametrize(
    ("query", "terms", "text"),
    [
        ("tool:Bash -agent:codex", [("tool", "Bash", False), ("agent", "codex", True)], ""),
        ('agent:"boss › helper" push it', [("agent", "boss › helper", False)], "push it"),
        ("10:00-10:05 by:admin", [("since", "10:00", False), ("until", "10:05", False), ("by", "admin", False)], ""),
        ('"free text" risk:high', [("risk", "high", False)], "free text"),
        ("state:Failed state:no-result", [("state", "Failed", False), ("state", "no-result", False)], ""),
        ("two  spaces", [], "two  spaces"),
        ("-rf", [], "-rf"),
        ("https://e.org/a error: 12:30", [], "https://e.org/a error: 12:30"),
        ("", [], ""),
    ],
)
def test_known_names_are_terms_and_everything_else_is_text(query: str, terms: list[Any], text: str) -> None:
    search = parse_search(query)
    assert ([(term.name, term.value, term.is_negated) for term in search.terms], search.text) == (terms, text)
    assert not search.faults


@pytest.mark.parametrize(
    "query", ["state:bogus", "since:soon", "kind:shell", "risk:9", "tool:", "until:99:99", "25:00-26:00"]
)
def test_a_value_that_is_not_understood_is_named(query: str) -> None:
    search = parse_search(query)
    assert search.faults and search.faults[0].startswith(query) and not search.text


def test_every_state_has_its_wire_name_and_its_word() -> None:
    assert set(STATES.values()) == {*map(str, ToolCallState), NO_RESULT}
    assert {"failed", "denied", "done", "running", "waiting", "needs-approval"} <= set(STATES)


@pytest.mark.parametrize(
    ("text", "ago"), [("2h", timedelta(hours=2)), ("15m", timedelta(minutes=15)), ("1w", timedelta(7))]
)
def test_an_age_is_before_now(text: str, ago: timedelta) -> None:
    time = read_time(text)
    assert time is not None and abs(timezone.now() - ago - time) < timedelta(seconds=30)


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_the_latest_one(hour: int, minute: int) -> None:
    time = read_time(f"{hour:02}:{minute:02}")
    assert time is not None and (time.hour, time.minute) == (hour, minute)
    assert timedelta() <= timezone.now() - time < timedelta(days=1, seconds=5)


@given(st.text(max_size=40) | st.from_regex(r"(?:-?[a-z]+:[^ ]{0,6} ){0,4}", fullmatch=True))
def test_no_query_fails_and_no_word_is_lost(query: str) -> None:
    search = parse_search(query)
    result = " ".join([*(f"{term.name}:{term.value}" for term in search.terms), search.text, *search.faults])
    assert all(word.strip('-"') in result.replace('"', "") or ":" in word or '"' in word for word in query.split())


@pytest.mark.parametrize("name", ["state", "by", "risk", "path", "reads", "writes"])
def test_what_changes_about_a_call_is_asked_again(name: str) -> None:
    assert SearchTerm(name, "x").changes


@pytest.mark.django_db
def test_the_page_names_what_it_did_not_understand(client: Client, a_person: Any) -> None:
    client.force_login(a_person("viewer"))
    html = client.get("/calls/", {"q": "since:<b>soon"}).content.decode()
    assert "Not understood: since:&lt;b&gt;soon: write 2h" in html
