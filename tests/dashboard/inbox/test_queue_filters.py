"""The inbox shows what its address searches for, and links set and drop the words of the search."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.live.boards import BOARDS

pytestmark = pytest.mark.django_db(transaction=True)


def list_ids(page: str) -> set[str]:
    return set(re.findall(r'<article[^>]* data-call-id="([^"]*)"', page))


def list_links(page: str) -> dict[str, tuple[str, bool]]:
    nav = page.partition('class="queue-filters"')[2].partition("</nav>")[0]
    found_links = re.findall(r'<a class="chip" href="([^"]*)"( aria-current="true")?>\s*(.*?)(?:\s*×)?</a>', nav, re.S)
    return {word: (html.unescape(url), bool(mark)) for url, mark, word in found_links}


def test_links_set_and_drop_filters_by_agent_risk_and_tool(signed_in: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Bash", input={"command": "rm -rf src"})
    a_call("approval-requested", call_id="c2", tool="send_email", input={"to": "a@x.example"})
    links = list_links(signed_in.get("/approvals/").content.decode())
    assert {"high risk", "medium risk", "Bash", "send_email"} <= links.keys()
    page = signed_in.get(links["Bash"][0]).content.decode()
    assert list_ids(page) == {"call-1"}
    assert list_links(page)["Bash"] == ("/approvals/", True)
    both = signed_in.get(list_links(page)["medium risk"][0]).content.decode()
    assert not list_ids(both) and "No waiting call matches" in both
    assert list_links(both)["Bash"][0] == "/approvals/?q=risk%3Amedium"


def test_one_kind_of_calls_needs_no_links(signed_in: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Bash")
    page = signed_in.get("/approvals/").content.decode()
    assert len(list_ids(page)) == 1 and not list_links(page)


def test_the_open_page_gets_only_calls_that_its_search_finds(a_call: Any) -> None:
    shell = a_call("approval-requested", tool="Bash", input={"command": "ls -la /srv"})
    mail = a_call("approval-requested", call_id="c2", tool="send_email", input={"to": "a@x.example"})
    board = BOARDS["approvals"]("board=approvals&q=tool%3ABash")
    frame = board.render_all()
    assert shell.public_id in frame.parts and mail.public_id not in frame.parts
    assert "a@x.example" not in str(frame.parts["groups"])
    assert {shell.public_id, mail.public_id} <= BOARDS["approvals"]("board=approvals").render_all().parts.keys()


def test_hostile_values_stay_text(signed_in: Client, a_call: Any) -> None:
    a_call("approval-requested", tool='<b>"x"', input={"a": 1})
    a_call("approval-requested", call_id="c2", tool="<i>y z", input={"a": 1})
    page = signed_in.get("/approvals/?q=tool:<script>").content.decode()
    assert "<b>" not in page.partition('class="queue-filters"')[2].partition("</nav>")[0] and "<script>x" not in page
    assert not list_ids(page)
