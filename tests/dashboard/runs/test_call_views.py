"""The pages of calls: the list with its filters, each call with its log, and its pictures."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


def test_a_failed_card_says_whose_fault_and_whether_to_try_again(a_run: Any, client: Client, a_person: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputFailed("c", "boom", "timeout"))
    client.force_login(a_person("viewer"))
    call = ToolCall.objects.get()
    page = client.get(f"/calls/{call.public_id}/").content.decode()
    for words in ("No answer in time", "Try again?", "Cause", "the tool", "Similar failures", "boom"):
        assert words in page


def test_the_calls_page_finds_by_every_filter(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call(call_id="one", tool="Read", input={"path": "needle.txt"})
    a_call("output-error", call_id="two", tool="Bash", input={"command": "false"})
    expected = {
        "q=needle": "one",
        "state=output-error": "two",
        "tool=Bash": "two",
        "kind=read": "one",
        "agent=bot": "one",
    }
    for query, call_id in expected.items():
        assert f'data-call-id="{call_id}"' in viewer.get(f"/calls/?{query}").content.decode(), query
    assert 'data-call-id="one"' not in viewer.get("/calls/?tool=Bash").content.decode()


def test_filters_that_are_set_are_named_in_the_words_of_the_pages(
    viewer: Client, a_call: Callable[..., ToolCall]
) -> None:
    a_call("output-error", tool="Bash")
    expected = {
        "/calls/?state=output-error": "State: Failed ×",
        "/calls/?state=no-result": "State: No result ×",
        "/calls/?q=needle": "Text: needle ×",
        "/calls/?tool=Bash": "Tool: Bash ×",
        "/runs/?status=waiting": "Status: Needs approval ×",
        "/runs/?status=truncated": "Status: Lost contact ×",
    }
    for path, chip in expected.items():
        html = viewer.get(path).content.decode()
        assert re.findall(r'class="chip" href="\?" title="Remove this filter">([^<]*)<', html) == [chip], path


def test_a_filter_that_excludes_everything_offers_to_go(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call()
    html = viewer.get("/calls/?tool=bash&q=nowhere").content.decode()
    assert "No call matches" in html and 'href="?tool=bash"' in html


def test_calls_that_ended_with_their_run_are_no_failures(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run(
        "ends",
        f.InputReady("bad", "Bash", {"command": "ls"}, False), f.OutputFailed("bad", "broke"),
        f.InputReady("open", "Bash", {"command": "ls"}, False), f.RunEnded(outcome="aborted"),
    )  # fmt: skip
    for state, call in {"output-error": "bad", "no-result": "open"}.items():
        assert re.findall(r'data-call-id="(\w+)"', viewer.get(f"/calls/?state={state}").content.decode()) == [call]


@pytest.mark.parametrize(
    "query", ["state=nonsense", "kind=nonsense", "before=x", "before=-1", "before=99999999999999999999", "%ff=%fe"]
)
def test_nonsense_in_the_query_asks_for_nothing(viewer: Client, a_call: Callable[..., ToolCall], query: str) -> None:
    a_call()
    assert viewer.get(f"/calls/?{query}").status_code == 200
    assert viewer.get(f"/runs/?{query}").status_code == 200


def test_calls_come_in_pages(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("long", *(f.InputReady(f"c{n:03}", "Read", {"n": n}, True) for n in range(60)))
    html = viewer.get("/calls/").content.decode()
    assert html.count("<article") == 50 and "Older calls" in html
    before = html.split("?before=")[1].split('"')[0]
    assert viewer.get(f"/calls/?before={before}").content.decode().count("<article") == 10


def test_a_calls_page_is_whole_and_tells_its_story(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-denied", input={"command": "z" * 5_000})
    html = viewer.get(f"/calls/{call.public_id}/").content.decode()
    assert "z" * 5_000 in html
    for text in ("Input received", "Policy: asked", "Toolcards asked for approval", "Denied by ann"):
        assert text in html


def test_a_viewer_is_offered_no_buttons_by_the_style_sheet(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    a_call("approval-requested")
    assert 'data-can=""' in viewer.get("/").content.decode()


def test_an_approver_is(client: Client, an_approver: Any) -> None:
    client.force_login(an_approver)
    assert 'data-can="vote"' in client.get("/").content.decode()


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


def test_a_picture_is_served_as_what_its_bytes_prove_and_may_do_nothing(
    viewer: Client, a_call: Callable[..., ToolCall]
) -> None:
    block = {"type": "image", "data": PNG, "mimeType": "text/html"}
    call = a_call("output-available", input={"content": [block]})
    address = f"/calls/{call.public_id}/pictures/in/0/"
    assert address in viewer.get(f"/calls/{call.public_id}/").content.decode()
    answer = viewer.get(address)
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "image/png"
    assert answer.content == base64.b64decode(PNG)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    for missing_path in ("in/1", "in/99999999999", "out/0", "other/0"):
        assert viewer.get(f"/calls/{call.public_id}/pictures/{missing_path}/").status_code == 404
