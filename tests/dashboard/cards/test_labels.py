"""Words of cards: states, causes, errors and anomalies."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from dashboard.cards import labels, rendering
from dashboard.cards.labels import describe_review, render_icon
from tests.support.cards import a_card, call_of, html_of, text_of
from tests.support.tables import loop_over
from toolcards.client.common import error_codes
from toolcards.core.calls.card import (
    Card,
    CardApproval,
    CardError,
    ToolCallState,
)

S = ToolCallState


@pytest.mark.parametrize("cause", sorted(labels.SOFT_END_LABELS))
def test_what_we_concluded_is_said_in_a_sentence_and_does_not_move(cause: str) -> None:
    html = html_of(a_card(S.OUTPUT_ERROR, soft=True, cause=cause, error=CardError("", authority="runtime")))
    assert labels.SOFT_SENTENCES[cause] in text_of(html).replace("&#x27;", "'")
    assert labels.SOFT_END_LABELS[cause].word in html and "data-moving" not in html and 'class="error"' not in html


@pytest.mark.parametrize("cause", sorted(labels.UNWRITTEN_SENTENCES))
def test_what_was_never_written_to_its_end_cannot_have_run(cause: str) -> None:
    html = text_of(
        html_of(a_card(S.OUTPUT_ERROR, soft=True, cause=cause, has_input=False, input=None, error=CardError("")))
    )
    assert "The tool did not run" in html and "not known" not in html


FAILED = {  # code: who caused it, and whether again makes sense, as a person reads it
    "timeout": ("the tool or its backend", "Check first, it may have run"),
    "connect_failed": ("the network", "Yes, the same call may succeed"),
    "rate_limited": ("the service behind the tool", "Yes, the same call may succeed"),
    "invalid_input": ("the model: its input is not valid", "the input must be corrected"),
    "no_such_tool": ("the model: it named a tool", "the tool name must be corrected"),
    "gate_unavailable": ("Toolcards, or the connection to it", "Yes, the same call may succeed"),
    "plugin_crash": ("a plugin", "No, it would fail again"),
    "policy_denied": ("the policy does not allow it", "the policy would deny it again"),
    "lost": ("the agent lost contact", "Check first"),
    "tool_failed": ("the tool or its backend", "No, it would fail again"),
}


@loop_over("code", list(error_codes.TABLE))
def test_a_failed_card_says_what_failed_whose_fault_and_whether_to_try_again(code: str) -> None:
    fault = error_codes.make_fault(code)
    error = CardError("words", code, fault.retryable, fault.authority, fault.phase)
    html = text_of(html_of(a_card(S.OUTPUT_ERROR, error=error))).replace("&#x27;", "'")
    whose, again = FAILED.get(code, ("", ""))
    assert error_codes.get_title(code) in html and "words" in html
    is_stated = error_codes.TABLE[code].retry != "unknown" or code == "lost"
    assert whose in html and again in html and ("Not stated" not in html) is is_stated
    if fault.retryable is False and error_codes.TABLE[code].retry in {"idempotent", "unwritten"}:
        assert "it may have run" in html


@pytest.mark.parametrize(("after_ms", "words"), [(2000, "2 s"), (1500, "1.5 s"), (0, ""), (None, "")])
def test_a_failed_card_says_how_long_to_wait_where_that_is_known(after_ms: int | None, words: str) -> None:
    error = CardError("words", "rate_limited", True, "tool", "execute", after_ms)
    html = text_of(html_of(a_card(S.OUTPUT_ERROR, error=error)))
    assert ("Wait first" in html) is bool(words) and words in html


@pytest.mark.parametrize("code", sorted(labels.ANOMALIES))
def test_oddities_are_said_in_words(code: str) -> None:
    html = html_of(a_card(S.OUTPUT_AVAILABLE, anomalies=((code, 1.0),)))
    assert labels.ANOMALIES[code].split("’")[0] in html


def build_card(review: dict[str, str] | None, state: str = "approval-requested") -> Card:
    """Return a card whose question has a reviewer."""
    ask = CardApproval(opener="gate", terms={"review": "guard"}, review=review, votable=True)
    return Card("c", state=ToolCallState(state), approval=ask, input={}, has_input=True)


def review(answer: str, note: str = "") -> dict[str, str]:
    return {"by": "guard", "answer": answer, "reason": "<b>fine</b>", "note": note, "prompt_sha256": "ab" * 32}


@loop_over(
    ("answer", "state", "words"),
    [
        ("allow", "allow", "Reviewer guard answered allow"), ("deny", "deny", "Reviewer guard answered deny"),
        ("ask", "ask", "Reviewer guard left it to people"), ("", "failed", "Reviewer guard did not answer"),
    ],
)  # fmt: skip
def test_an_answer_is_a_line(answer: str, state: str, words: str) -> None:
    line = describe_review(build_card(review(answer, "Too late.")))
    assert line == (state, words, "<b>fine</b>", "Too late.", "ab" * 32)


def test_a_question_shows_that_its_reviewer_is_looking() -> None:
    line = describe_review(build_card(None))
    assert line is not None and (line.state, line.words.split(".")[0]) == ("looking", "Reviewer guard is looking")
    assert describe_review(build_card(None, "output-denied")) is None and describe_review(Card("c")) is None


def test_the_card_of_any_state_has_the_line_and_no_html_of_a_model() -> None:
    for state in (ToolCallState.APPROVAL_REQUESTED, ToolCallState.APPROVAL_RESPONDED):
        card = a_card(state)
        assert card.approval is not None
        reviewed_card = card.replace(approval=replace(card.approval, review=review("allow", "It is <i>high</i> risk.")))
        html = rendering.render_uncached(call_of(reviewed_card))
        assert 'data-review="allow"' in html and "prompt abababab" in html, state
        assert "&lt;b&gt;fine&lt;/b&gt;" in html and "&lt;i&gt;high&lt;/i&gt;" in html
        assert "data-review" not in rendering.render_uncached(call_of(card))


SPRITE = "vendor/lucide/sprite.svg"


def list_icons() -> set[str]:
    path = finders.find(SPRITE)
    assert isinstance(path, str)
    return set(re.findall(r'id="i-([a-z0-9-]+)"', Path(path).read_text()))


def test_an_icon_is_a_part_of_the_sprite_that_screen_readers_skip() -> None:
    html = render_icon("hand", "large")
    assert re.fullmatch(r'<svg class="icon large" aria-hidden="true"><use href="([^"]+)#i-hand"/></svg>', html)
    assert f"{settings.STATIC_URL}{SPRITE}" in html


def test_a_name_is_escaped() -> None:
    html = render_icon('x"><script>', '"><b>')
    assert "<script>" not in html and "<b>" not in html and html.count("<") == 3


def test_every_icon_of_a_template_or_a_label_is_in_the_sprite() -> None:
    icons = list_icons()
    (templates,) = settings.TEMPLATES[0]["DIRS"]
    texts = [path.read_text() for path in templates.rglob("*.html")]
    template_icons = {name for text in texts for name in re.findall(r'\{% icon "([^"]+)"', text)}
    label_icons = {
        label.icon
        for table in vars(labels).values()
        if isinstance(table, dict)
        for label in table.values()
        if isinstance(label, labels.StateLabel)
    }
    assert len(template_icons) > 20 and len(label_icons) > 10
    assert template_icons | label_icons <= icons
