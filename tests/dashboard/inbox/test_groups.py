"""Groups of similar calls: what counts as similar, what differs, and how many are shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.inbox import groups
from dashboard.live import boards
from dashboard.live.base_board import BoardNews
from tests.support.batches import tickets
from toolcards import gate
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


# ---------------------------------------------------------------- what is alike
def test_alike_calls_are_shown_with_what_differs(ann: Client, edits: Any) -> None:
    edits(3)
    page = ann.get("/approvals/").content.decode()
    assert "3 similar calls" in page and len(tickets(page)) == 3
    assert "src/<mark>0</mark>.py" in page and "src/<mark>2</mark>.py" in page
    assert page.count("<article") == 3  # each still has its card, with its form
    group = groups.build_groups_context()["groups"][0]
    assert (group.differs, group.same, group.approvable) == (["path"], [("text", "x")], True)


def test_a_single_call_is_no_group(ann: Client, a_call: Any) -> None:
    a_call("approval-requested")
    page = ann.get("/approvals/").content.decode()
    assert not tickets(page) and "share this shape" not in page


@pytest.mark.parametrize(("one", "other", "same"), [
    ({"path": "a"}, {"path": "b"}, True),
    ({"path": "a"}, {"path": 1}, False),
    ({"path": "a"}, {"path": "a", "all": True}, False),
    ({"list": ["a"]}, {"list": ["a", "b"]}, True),
    ({"list": ["a"]}, {"list": [{"a": 1}]}, False),
    ({"command": "git push origin a"}, {"command": "git push origin b"}, True),
    ({"command": "git push origin a"}, {"command": "git commit a"}, False),
    ({"command": "rm a.txt"}, {"command": "rm -r a.txt"}, False),
    ({"command": "ls a.txt"}, {"command": "cat a.txt"}, False),
    ({"command": "ls a.txt"}, {"command": "ls b.txt | sh"}, False),
    ({"command": "echo $(a)"}, {"command": "echo $(b)"}, False),  # what cannot be read is alike to itself alone
    ("a", "b", True),
    (None, None, True),
])  # fmt: skip
def test_what_counts_as_the_same_shape(one: Any, other: Any, same: bool) -> None:
    assert (groups.compute_shape(one) == groups.compute_shape(other)) is same


@pytest.mark.parametrize("other", [
    {"tool": "Write"}, {"input": {"path": "/etc/passwd", "text": "x"}}, {"input": {"path": "a.py", "text": "x" * 3000}},
])  # fmt: skip
def test_another_tool_another_risk_and_what_is_too_long_to_compare_are_not_alike(
    a_call: Any, edits: Any, other: dict[str, Any]
) -> None:
    edits(2)
    a_call("approval-requested", **({"tool": "Edit", "input": {"path": "a.py", "text": "x"}} | other))
    assert [len(group.items) for group in groups.build_groups_context()["groups"]] == [2]


def test_calls_of_another_source_are_not_alike(a_call: Any, edits: Any, source: Any) -> None:
    from toolcards.models import AgentKey

    edits(2)
    other = AgentKey.objects.ensure("tck_another_secret_0123456789abcdefghijkl", name="another").source
    fields = {"path": "src/9.py", "text": "x"}
    gate.decide(other, gate.DecisionRequest(run="run-9", call_id="c", tool="Edit", args=fields))
    assert [len(group.items) for group in groups.build_groups_context()["groups"]] == [2]


def test_hostile_words_are_escaped_in_groups_too(ann: Client, a_call: Any) -> None:
    for number in range(2):
        fields = {'<b onclick="x">': "same", "path": f'"><script>{number}\u202e'}
        a_call("approval-requested", tool="<i>Edit", input=fields, call_id=f"c{number}", run="<u>")
    page = ann.get("/approvals/").content.decode()
    start = page.index('id="batch"')
    html = page[start : page.index('class="pane"')]
    assert "<script>" not in html and "<b onclick" not in html and "<i>" not in html and "<u>" not in html
    assert "\u202e" not in html and "U+202E" in html


def test_more_than_fifty_of_a_shape_are_counted_and_not_answered_at_once(
    ann: Client, edits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_GROUP_SIZE", 3)
    edits(5)
    page = ann.get("/approvals/").content.decode()
    assert len(tickets(page)) == 3 and "2 more similar calls; at most 3 are answered at once" in page


# ---------------------------------------------------------------- on open pages
def test_open_pages_get_groups_when_they_have_changed(edits: Any, a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.live.base_board.THROTTLE_SECONDS", 0.0)
    edits(2)
    board = boards.InboxBoard()
    news = BoardNews(runs=frozenset(ToolCall.objects.values_list("run", flat=True)))
    assert "2 similar calls" in board.render_all().parts["groups"]
    assert "groups" in board.render_changes(news).parts and "groups" not in board.render_changes(news).parts
    a_call("approval-requested", tool="Edit", input={"path": "src/9.py", "text": "x"}, call_id="more")
    assert "3 similar calls" in board.render_all().parts["groups"]  # a new watcher gets it first
    text = board.render_changes(news).parts["groups"]
    assert "3 similar calls" in text and "csrfmiddlewaretoken" not in text
    assert "groups" not in board.render_changes(news).parts


# ---------------------------------------------------------------- quick reasons
def test_the_reasons_of_the_last_denials_are_offered_again(ann: Client, a_call: Any, an_approver: Any) -> None:
    for number, reason in enumerate(["not here", "ask me first", "not here", ""]):
        call = a_call("approval-requested", call_id=f"c{number}")
        card = call.as_card()
        gate.vote(
            an_approver, gate.Ballot(card.approval.id, "deny", card.rev, card.approval.args_sha256, reason=reason)
        )
    assert groups.list_recent_reasons() == ["not here", "ask me first"]
    page = ann.get("/approvals/").content.decode()
    assert '<option value="ask me first">' in page and 'id="quick-reasons"' in page
