"""Cards as HTML: every state, every end, every hostile text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import labels, rendering
from dashboard.cards.rendering import MAX_PARTS, NEW_PAGE, CardForm, PageState, build_part, place_card, place_piece
from tests.support.cards import a_card, call_of, html_of, text_of
from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.calls.card import (
    TERMINAL,
    Card,
    CardApproval,
    CardDecision,
    CardError,
    CardTool,
    Milestones,
    ToolCallState,
)
from toolcards.core.calls.facts import Actor
from toolcards.core.text.text_rope import Rope
from toolcards.models import ToolCall

S = ToolCallState


@pytest.mark.parametrize("state", list(S))
def test_every_state_is_a_card_that_names_itself(state: ToolCallState) -> None:
    html = html_of(a_card(state))
    assert f'data-state="{state}"' in html
    assert html.count("<article") == 1 and 'data-call-id="call-1"' in html and 'data-run="run/7"' in html
    assert labels.STATE_LABELS[state].word in text_of(html) and "Bash" in html


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_what_has_ended_does_not_move(state: ToolCallState) -> None:
    html = html_of(a_card(state))
    assert "data-moving" not in html and "data-since" not in html


def test_missing_facts_are_not_invented() -> None:
    html = text_of(html_of(a_card(S.OUTPUT_ERROR, error=CardError("words"))))
    assert html.count("Not stated") == 2
    html = text_of(html_of(a_card(S.OUTPUT_ERROR, error=CardError("words", "invalid_input", None, "runtime"))))
    assert "the model" not in html and "Not stated" in html  # the agent says that it was its own fault


def test_a_partial_output_moves_and_says_so() -> None:
    html = html_of(a_card(S.OUTPUT_AVAILABLE, preliminary=True))
    assert "partial output" in html and "data-moving" in html and "Output so far" in html


def test_a_call_that_the_client_owes_does_not_spin() -> None:
    html = html_of(a_card(S.INPUT_AVAILABLE, awaiting_client=True))
    assert "Waiting for the app" in html and "data-moving" not in html and "data-since" not in html


@pytest.mark.parametrize(
    ("value", "expected_text"),
    [(None, "null"), (0, "0"), ("", "&quot;&quot;"), (False, "false"), ([], "[]"), ({}, "{}")],
)
def test_empty_results_are_results(value: Any, expected_text: str) -> None:
    html = html_of(a_card(S.OUTPUT_AVAILABLE, output=value))
    assert f'<pre class="text">{expected_text}'.replace("&quot;", '"') in html.replace("&quot;", '"')


def test_the_vote_form_holds_what_the_person_saw() -> None:
    card = a_card(S.APPROVAL_REQUESTED)
    call = call_of(card)
    html = rendering.render_uncached(call)
    assert 'action="/approvals/apr_1/vote"' in html and f'name="rev" value="{call.rev}"' in html
    assert f'name="args_sha256" value="{"ab" * 32}"' in html
    assert 'name="decision" value="approve"' in html and 'name="decision" value="deny"' in html
    assert "csrfmiddlewaretoken" not in html


@pytest.mark.parametrize(
    "ask",
    [
        CardApproval(id="apr_1", votable=False),
        CardApproval(id="apr_1", votable=True, automatic=True),
        CardApproval(id="apr_1", votable=True, state="cancelled"),
    ],
    ids=["answered elsewhere", "automatic", "withdrawn"],
)
def test_buttons_that_answer_nothing_are_not_shown(ask: CardApproval) -> None:
    html = html_of(a_card(S.APPROVAL_REQUESTED, approval=ask))
    assert "decision" not in html and 'class="elsewhere"' in html


@pytest.mark.parametrize("state", [state for state in S if state is not S.APPROVAL_REQUESTED])
def test_only_what_waits_has_buttons(state: ToolCallState) -> None:
    assert 'name="decision"' not in html_of(a_card(state))


def test_a_page_of_one_reader_has_the_token_in_the_form() -> None:
    page = rendering.render_for_reader(
        call_of(a_card(S.APPROVAL_REQUESTED)), token="the-token", notice="Already denied by Ben <b>"
    )
    assert '<input type="hidden" name="csrfmiddlewaretoken" value="the-token">' in page
    assert "data-told" in page and "Already denied by Ben &lt;b&gt;" in page


def test_agents_cannot_write_the_place_of_the_token() -> None:
    html = rendering.render_for_reader(
        call_of(a_card(S.INPUT_AVAILABLE, input={"a": rendering.TOKEN})), token="secret-token"
    )
    assert "secret-token" not in html


def test_an_error_says_kind_fault_and_whether_to_retry() -> None:
    text = text_of(html_of(a_card(S.OUTPUT_ERROR, error=CardError("disk full", "ENOSPC", None, "provider"))))
    assert "disk full" in text and "ENOSPC" in text and "Not stated" in text and "the model provider" in text


def test_an_error_without_words_is_still_an_error() -> None:
    assert "No error message given" in html_of(a_card(S.OUTPUT_ERROR, error=CardError("")))


@pytest.mark.parametrize(
    ("by", "expected_text"),
    [
        (Actor("human", "ann"), "ann"),
        (Actor("rule", "no-rm"), "rule no-rm"),
        (Actor("timeout"), "the time limit"),
        (Actor("host"), "host"),
    ],
)
def test_a_denial_shows_its_actor_and_the_reason_that_the_agent_received(by: Actor, expected_text: str) -> None:
    text = text_of(html_of(a_card(S.OUTPUT_DENIED, denied_by=by, denied="use the API")))
    assert expected_text in text and "For the agent: use the API" in text


def test_why_names_rule_version_and_reason() -> None:
    decision = CardDecision("allow", reason="reads only", rule="r1", version=12)
    html = html_of(a_card(S.INPUT_AVAILABLE, decision=decision))
    assert "Allowed: reads only rule r1 · v12" in text_of(html)
    assert re.search(r'<a class="rule" href="/calls/\d+-\d+/why/"', html)


def test_no_rule_is_said_too() -> None:
    assert "No rule matched: default" in html_of(a_card(S.INPUT_AVAILABLE, decision=CardDecision("allow", version=1)))


def test_a_repair_shows_what_was_and_what_is() -> None:
    html = html_of(a_card(S.INPUT_AVAILABLE, original_input={"n": "1"}, input={"n": 1}, repair="schema"))
    assert "<del>−" in html and "<ins>+" in html and "repaired (schema)" in html


def test_an_edit_names_the_editor() -> None:
    card_approval = CardApproval(id="a", state="approved", by=Actor("human", "ann"))
    html = html_of(
        a_card(S.APPROVAL_RESPONDED, original_input={"n": 1}, input={"n": 2}, repair="edited", approval=card_approval)
    )
    assert "Edited by ann" in html


def test_long_bodies_are_cut_and_say_so() -> None:
    html = html_of(a_card(S.OUTPUT_AVAILABLE, output="x" * 9_000))
    assert len(html) < 9_000 and "Show all 9000 characters" in html
    assert "x" * 9_000 in html_of(a_card(S.OUTPUT_AVAILABLE, output="x" * 9_000), full=True)


def test_what_is_asked_about_is_whole_up_to_a_limit_and_the_button_counts_what_is_not() -> None:
    assert "y" * 20_000 in html_of(a_card(S.APPROVAL_REQUESTED, input={"command": "y" * 20_000}))
    assert "characters not shown)" in html_of(a_card(S.APPROVAL_REQUESTED, input={"command": "y" * 90_000}))


def test_the_strip_has_the_three_parts_of_a_call() -> None:
    times = Milestones(started=1000.0, available=1000.8, requested=1000.8, decided=1042.8, finished=1045.9)
    html = html_of(a_card(S.OUTPUT_AVAILABLE, times=times))
    assert "writing 0.8 s, waiting 42 s, running 3.1 s" in html
    assert all(f'<rect class="{part}"' in html for part in ("write", "wait", "run"))


HOSTILE = {
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "quotes": '"\' onmouseover=alert(1) x="',
    "bidi": "safe\u202egnp.exe",
    "zero width": "a\u200bb\u2060c",
    "nul": "a\x00b",
    "surrogate": "a\ud800b",
    "tags": "a\U000e0041b",
    "template": "{{ 7|add:7 }}{% debug %}",
    "comment": "<!--token--><!--told-->",
    "escape": "\x1b[31mred",
}


class Inert(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def hostile_card(state: ToolCallState, text: str) -> Card:
    """A card with the text in every place that an agent fills."""
    ask = CardApproval(
        id="apr_1", votable=True, request_reason=text, reason=text, by=Actor("human", text), terms={"editable": [text]}
    )
    return a_card(
        state, tool=CardTool(text, "execute", text, text), input={text: text, "deep": {text: [text]}},
        output={text: text}, has_output=True, denied=text, detail={text: text}, denied_by=Actor("rule", text),
        error=CardError(text, text, None, text, text), approval=ask if state is not S.OUTPUT_DENIED else None,
        agent_path=(text, text), original_input=text, repair=text,
        decision=CardDecision("deny", reason=text, rule=text, suggest=text, would=({"rule": text, "effect": text},)),
        anomalies=((text, 1.0),),
    )  # fmt: skip


@loop_over("text", HOSTILE.values(), ids=HOSTILE)
@loop_over("state", list(S))
def test_hostile_text_is_inert_everywhere(state: ToolCallState, text: str) -> None:
    for full in (False, True):
        html = html_of(hostile_card(state, text), full=full)
        reader = Inert()
        reader.feed(html)
        assert not reader.tags & {"script", "img", "iframe", "style"}
        assert not [name for name in reader.attributes if name.startswith("on") or name == "style"]
        assert not set("\x00\x1b\u202e\u200b\u2060\ud800\U000e0041") & set(html)
        html.encode()  # can be sent


def test_a_card_needs_no_query(django_assert_num_queries: Any, db: None) -> None:
    call = call_of(a_card(S.APPROVAL_REQUESTED))
    with django_assert_num_queries(0):
        rendering.render_uncached(call)


def test_each_revision_is_drawn_once() -> None:
    cache = rendering.CardCache()
    call = call_of(a_card(S.INPUT_AVAILABLE))
    assert cache.get_html(call) == cache.get_html(call) and cache.renders == 1


def test_only_so_many_cards_are_kept() -> None:
    cache = rendering.CardCache(size=3)
    for _ in range(5):
        cache.get_html(call_of(a_card(S.INPUT_AVAILABLE)))
    assert len(cache._html_by_key) == 3


def test_other_threads_get_the_interpreter_between_two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(rendering.time, "sleep", pauses.append)
    cache, calls = rendering.CardCache(), [call_of(a_card(state)) for state in S]
    for call in calls:
        cache.get_html(call)
    assert pauses == [0] * len(calls)
    for call in calls:
        cache.get_html(call)
    assert pauses == [0] * len(calls)  # what is in memory takes no time


CALL_NUMBERS = st.tuples(st.integers(1, 10**18 - 1), st.integers(1, 10**9 - 1), st.integers(0, 10**18 - 1))


def build_call(run: int, ordinal: int, seq: int) -> ToolCall:
    return ToolCall(run_id=run, ordinal=ordinal, seq=seq)


@draw(100)
@given(st.lists(CALL_NUMBERS, max_size=5, unique_by=lambda numbers: numbers[:2]))
def test_what_a_page_shows_is_read_from_its_address(numbers: list[tuple[int, int, int]]) -> None:
    calls = [build_call(*each) for each in numbers]
    page = PageState.read_calls(PageState.write_calls(calls))
    assert page == PageState(calls={call.public_id: call.seq for call in calls})


@loop_over(("text", "calls"), [
    ("", {}), ("x", {}), ("1-1", {}), ("1-1.", {}), ("1-1.5", {"1-1": 5}), ("1-1.x_2-3.4", {"2-3": 4}), ("1-1.-5", {}),
    ("_1-1.5_", {"1-1": 5}), ("1-1.5 ", {}), ("²-1.1", {}), ("٣-1.1", {}), ("9" * 19 + "-1.1", {}), ("1-1.1\n", {}),
    ("1-" + "9" * 10 + ".1", {}), ("1-1.5_1-1.7", {"1-1": 7}), ("1-1.5&board=now", {}),
])  # fmt: skip
def test_what_is_broken_in_an_address_is_left_out(text: str, calls: dict[str, int]) -> None:
    assert PageState.read_calls(text) == PageState(calls=calls)


def test_an_address_names_no_more_calls_than_a_page_shows() -> None:
    text = "_".join(f"1-{number}.1" for number in range(1, MAX_PARTS + 50))
    assert list(PageState.read_calls(text).calls) == [f"1-{number}" for number in range(1, MAX_PARTS + 1)]


def test_a_new_page_shows_nothing() -> None:
    assert PageState.read_calls("") == NEW_PAGE and NEW_PAGE.seq == 0


def test_a_part_says_what_goes_where() -> None:
    assert build_part("#a", "outerMorph", "<b>x</b>") == (
        '<hx-partial hx-target="#a" hx-swap="outerMorph"><b>x</b></hx-partial>'
    )


def test_a_call_is_placed_or_renewed_only_where_it_is() -> None:
    call = call_of(a_card(ToolCallState.OUTPUT_AVAILABLE))
    part, renewal = place_card(call), place_card(call, known_only=True)
    assert part.startswith('<hx-partial hx-target="#board" hx-swap="place"><') and "<article" in part
    assert renewal == part.replace('hx-swap="place"', 'hx-swap="renew"')
    assert place_card(call, CardForm.LISTED) != part


def test_a_call_that_was_removed_takes_its_place_away_everywhere() -> None:
    call = call_of(a_card(ToolCallState.OUTPUT_AVAILABLE))
    call.removed = True
    part = place_card(call, known_only=True)
    assert part == place_card(call) and 'hx-swap="place"' in part and "git push" not in part
    assert call.public_id in part


@loop_over(("old", "new", "piece"), [
    ("ab", "abcd", "cd"), ("ab", "ab<b>", "&lt;b&gt;"), ("ab", "ab\u202e", '<span class="mark">U+202E</span>'),
    ("ab", "ab", ""), ("a😀", "a😀é", "é"),
])  # fmt: skip
def test_a_piece_of_an_input_has_only_what_is_new(old: str, new: str, piece: str) -> None:
    before = a_card(ToolCallState.INPUT_STREAMING).replace(text=Rope(old), rev=2, seq=5)
    card = before.replace(text=Rope(new), rev=3, seq=8)
    part = place_piece(call_of(card), before, card)
    assert part.startswith('<hx-partial hx-target="#board" hx-swap="grow"><article id="c-')
    assert part.endswith(f' data-from="{len(old)}" data-size="{len(new)}">{piece}</article></hx-partial>')
    assert ' data-state="input-streaming" data-rev="3" data-seq="8"' in part and len(part) < 300


@loop_over(("old", "new", "changes"), [
    ("", "a", {}), ("ab", "xbc", {}), ("ab", "a", {}), ("ab\r", "ab\r\n", {}), ("a", "a" * 2_000, {}),
    ("ab", "abc", {"tool": CardTool("other")}), ("ab", "abc", {"anomalies": (("late-response", 1.0),)}),
])  # fmt: skip
def test_a_change_that_is_more_than_a_piece_needs_the_card(old: str, new: str, changes: dict[str, Any]) -> None:
    before = a_card(ToolCallState.INPUT_STREAMING).replace(text=Rope(old))
    card = before.replace(text=Rope(new), **changes)
    assert place_piece(call_of(card), before, card) == ""
