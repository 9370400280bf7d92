"""Saved filters: each person's links on Calls and Runs, their limits, and names that mean harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st

from dashboard.live.boards import BOARDS
from dashboard.runs.saved_filters import MAX_SAVED, encode_filters
from dashboard.search.filters import CallFilters, RunFilters
from toolcards.models import SavedFilter, ToolCall

pytestmark = pytest.mark.django_db
HOSTILE_NAME = '"><script>alert(1)</script>\u202e'


def save(client: Client, name: str, query: str = "tool=bash", page: str = "calls") -> Any:
    return client.post("/filters/", {"page": page, "query": query, "name": name}, follow=True)


def list_links(html: str) -> list[tuple[str, bool, str]]:
    """Return address, whether it is the current one, and name of each link."""
    nav = re.search(r'<nav class="seg" aria-label="Saved filters">(.*?)</nav>', html, re.DOTALL)
    links = re.findall(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', nav[1], re.DOTALL) if nav else []
    return [(href, "aria-current" in rest, re.sub("<[^>]+>", "", text).strip()) for href, rest, text in links]


def test_a_saved_filter_is_a_link_above_the_list_and_the_active_one_is_marked(viewer: Client) -> None:
    answer = save(viewer, "  Shell   only ", "tool=bash&state=output-error&before=7&junk=1")
    assert answer.redirect_chain == [("/calls/?state=output-error&tool=bash", 302)]
    links = [("/calls/", False, "All"), ("/calls/?state=output-error&amp;tool=bash", True, "Shell only")]
    assert list_links(answer.content.decode()) == links
    elsewhere = list_links(viewer.get("/calls/?tool=bash&state=output-error&before=3").content.decode())
    assert elsewhere == links
    assert [active for _, active, _ in list_links(viewer.get("/calls/").content.decode())] == [True, False]
    assert [active for _, active, _ in list_links(viewer.get("/calls/?tool=x").content.decode())] == [False, False]


def test_runs_have_saved_filters_of_their_own(viewer: Client) -> None:
    save(viewer, "Mine", "tool=bash")
    answer = save(viewer, "Mine", "status=waiting&agent=a%26b", page="runs")
    assert list_links(answer.content.decode())[1:] == [("/runs/?status=waiting&amp;agent=a%26b", True, "Mine")]
    assert [name for _, _, name in list_links(viewer.get("/calls/").content.decode())] == ["All", "Mine"]


def test_the_form_is_offered_for_a_filter_that_is_not_saved_yet(viewer: Client) -> None:
    assert "Save this filter" not in viewer.get("/calls/").content.decode()
    for path in ("/calls/?tool=bash", "/runs/?status=waiting"):
        assert "Save this filter" in viewer.get(path).content.decode()
    saved_page = save(viewer, "Shell").content.decode()
    assert "Save this filter" not in saved_page and "Rename" in saved_page and "Delete" in saved_page


def test_a_saved_filter_is_renamed_and_deleted_on_its_page(viewer: Client) -> None:
    save(viewer, "Shell")
    row = SavedFilter.objects.get()
    answer = viewer.post(f"/filters/{row.pk}/rename", {"name": "Bash"}, follow=True)
    assert answer.redirect_chain == [("/calls/?tool=bash", 302)]
    assert list_links(answer.content.decode())[1] == ("/calls/?tool=bash", True, "Bash")
    answer = viewer.post(f"/filters/{row.pk}/delete", follow=True)
    assert answer.redirect_chain == [("/calls/?tool=bash", 302)] and list_links(answer.content.decode()) == []
    assert viewer.post(f"/filters/{row.pk}/delete").status_code == 404


@pytest.mark.parametrize("name", ["", "   ", "n" * 61, "\n"])
def test_a_name_that_does_not_fit_is_refused_with_a_reason(viewer: Client, name: str) -> None:
    answer = save(viewer, name)
    assert answer.status_code == 200 and "Enter a name of 1 to 60 characters." in answer.content.decode()
    save(viewer, "Shell")
    row = SavedFilter.objects.get()
    answer = viewer.post(f"/filters/{row.pk}/rename", {"name": name}, follow=True)
    assert "Enter a name of 1 to 60 characters." in answer.content.decode()
    row.refresh_from_db()
    assert row.name == "Shell"


def test_a_name_is_used_once_and_a_filter_saved_once(viewer: Client) -> None:
    save(viewer, "Shell")
    assert "You already have a saved filter named “Shell”." in save(viewer, "Shell", "tool=edit").content.decode()
    assert "This filter is already saved as “Shell”." in save(viewer, "Other").content.decode()
    assert "Choose a filter first" in save(viewer, "Nothing", "state=nonsense").content.decode()
    save(viewer, "Other", "tool=edit")
    other = SavedFilter.objects.get(name="Other")
    answer = viewer.post(f"/filters/{other.pk}/rename", {"name": "Shell"}, follow=True)
    assert "You already have" in answer.content.decode()
    viewer.post(f"/filters/{other.pk}/rename", {"name": "Other"})
    assert sorted(SavedFilter.objects.values_list("name", "query")) == [("Other", "tool=edit"), ("Shell", "tool=bash")]


def test_a_person_saves_up_to_the_limit_on_each_page(viewer: Client) -> None:
    for number in range(MAX_SAVED):
        save(viewer, f"name {number}", f"tool=t{number}")
    answer = save(viewer, "one more", "tool=one-more").content.decode()
    assert "which is the limit" in answer and "Save this filter" not in answer
    assert SavedFilter.objects.count() == MAX_SAVED
    save(viewer, "on the other page", "status=waiting", page="runs")
    assert SavedFilter.objects.count() == MAX_SAVED + 1


def test_no_one_sees_or_changes_the_filters_of_another_person(viewer: Client, a_person: Callable[..., Any]) -> None:
    save(viewer, "Shell")
    row, other = SavedFilter.objects.get(), Client()
    other.force_login(a_person("admin", "anna"))
    assert list_links(other.get("/calls/?tool=bash").content.decode()) == []
    assert other.post(f"/filters/{row.pk}/rename", {"name": "x"}).status_code == 404
    assert other.post(f"/filters/{row.pk}/delete").status_code == 404
    assert list_links(save(other, "Shell").content.decode())[1][2] == "Shell"
    row.refresh_from_db()
    assert row.name == "Shell"


def test_a_filter_goes_with_its_person(viewer: Client) -> None:
    save(viewer, "Shell")
    SavedFilter.objects.get().person.delete()
    assert not SavedFilter.objects.exists()


def test_hostile_names_and_queries_stay_text(viewer: Client) -> None:
    html = save(viewer, HOSTILE_NAME, urlencode({"tool": '"><i>\0\n', "q": "\u202e'\"&<b>"})).content.decode()
    assert "<script>alert" not in html and "<i>" not in html and '<b>"' not in html
    assert escape(HOSTILE_NAME) in html  # the field to rename it
    (href, active, text) = list_links(html)[1]
    assert active and "U+202E" in text and "&lt;script&gt;" in text and '"' not in href


@pytest.mark.parametrize("page", ["", "policy", "../runs"])
def test_another_page_has_no_saved_filters(viewer: Client, page: str) -> None:
    assert viewer.post("/filters/", {"page": page, "query": "tool=bash", "name": "x"}).status_code == 404


def test_the_list_stays_live_under_a_saved_filter(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    html = save(viewer, "Shell", "tool=bash&kind=execute").content.decode()
    (query,) = re.findall(r'hx-ws:connect="/ws/me/\?([^"]*)"', html)
    board = BOARDS["calls"](query.replace("&amp;", "&"))
    assert board.filters == CallFilters(tool="bash", kind="execute")  # type: ignore[attr-defined]


@given(st.fixed_dictionaries({name: st.text(max_size=250) for name in ("q", "tool", "agent", "source", "run")}))
def test_a_query_reads_as_the_filters_that_it_was_made_from(values: dict[str, str]) -> None:
    filters = CallFilters.read(urlencode(values, errors="replace"))
    assert CallFilters.read(encode_filters(filters)) == filters
    runs = RunFilters.read(urlencode(values, errors="replace"))
    assert RunFilters.read(encode_filters(runs)) == runs
