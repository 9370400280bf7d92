"""The context of every page is read only by templates that show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from dashboard.context_processors import add_site_status
from dashboard.environment import PROGRAM
from toolcards import gate

pytestmark = pytest.mark.django_db


def test_a_page_that_shows_nothing_of_it_costs_no_query(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        context = add_site_status(RequestFactory().get("/"))
        assert Template("{{ program }}").render(Context(context)) == PROGRAM


def test_a_template_reads_what_waits_and_which_switch_is_on(a_call: Callable[..., Any]) -> None:
    def render() -> str:
        context = add_site_status(RequestFactory().get("/"))
        return str(Template("{{ waiting.count }} {{ banner.killed.reason }}").render(Context(context)))

    a_call("approval-requested")
    assert render() == "1 "
    gate.set_kill_switch("ann", True, "a <fire>")
    assert render() == "0 a &lt;fire&gt;"
