"""Template tags and filters: agents' text is escaped, and addresses keep the rest of the page's query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.context_processors import PermWrapper
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.template import Context, Template
from django.test import RequestFactory
from django.urls import reverse

from dashboard.cards.rendering import CardForm
from dashboard.runs.tables import compute_state_bar
from dashboard.templatetags.toolcards import digest, seconds
from tests.support.cards import a_card, call_of
from tests.support.tables import loop_over
from toolcards import __version__
from toolcards.core.calls.card import Card, CardApproval, CardTool, ToolCallState
from toolcards.models import ToolCall

HOSTILE = "<script>\"'&\u202e\x00"
HOSTILE_HTML = "&lt;script&gt;&quot;&#x27;&amp;"
SHA = "ab" * 32


def render(source: str, request: HttpRequest | None = None, **context: Any) -> str:
    shared = {"request": request, "perms": PermWrapper(request.user)} if request else {}
    return str(Template("{% load toolcards %}" + source).render(Context(shared | context)))


def request_for(path: str = "/", person: Any = None) -> HttpRequest:
    request = RequestFactory().get(path)
    request.user = person or AnonymousUser()
    return request


def test_agents_text_is_escaped_and_marked_in_every_filter() -> None:
    for name in ("visible", "digest"):
        html = render(f"{{{{ text|{name} }}}}", text=HOSTILE)
        assert html.startswith(HOSTILE_HTML) and "U+202E" in html and "\u202e" not in html, name
    attribute = render('<i title="{{ text|plainly }}">', text=HOSTILE)
    assert "<script>" not in attribute and "U+202E" in attribute and attribute.count('"') == 2
    assert render("{{ value|visible }}", value=None) == "None" and render("{{ value|plainly }}", value=7) == "7"


@loop_over(("value", "html"), [
    ("", "—"), ([], "—"), ("text", "text"), (7, "7"), (["a", "<b>"], "a, &lt;b&gt;"), (True, "True"),
    (SHA, f'<code title="{SHA}">{"ab" * 6}…</code>'), (SHA.upper(), SHA.upper()), (SHA + "0", SHA + "0"),
    (f"{SHA}\n", f"{SHA}\n"), ({"was": "", "is": "<b>"}, "— → &lt;b&gt;"), ({"was": ["a"], "is": []}, "a → —"),
    ({"was": {"was": 1, "is": 2}, "is": 3}, "1 → 2 → 3"), ({"was": 1}, "{&#x27;was&#x27;: 1}"),
])  # fmt: skip
def test_a_digest_is_short_and_a_change_has_an_arrow(value: Any, html: str) -> None:
    assert digest(value) == html


@loop_over(("value", "text"), [(None, ""), ("", ""), (0, "0 ms"), ("1.5", "1.5 s"), (190, "3 min 10 s")])
def test_seconds_are_a_duration_and_no_value_is_no_text(value: Any, text: str) -> None:
    assert seconds(value) == text


def test_counts_are_grouped_and_shares_are_words() -> None:
    assert render("{{ count|thousands }}", count=2_410) == "2,410"
    shares = compute_state_bar({"output-available": 3, "output-error": 1})
    assert render("{{ shares|describe_shares }}", shares=shares) == "Done 3, Failed 1"
    assert render("{{ shares|describe_shares }}", shares=[]) == "No calls"


def test_the_query_of_a_board_has_its_filters_escaped() -> None:
    rows = [("tool", 'a&"b', "rest"), ("run", "r/1", "")]
    html = render('{% board_query "calls" rows %}', rows=rows)
    assert html == "?board=calls&amp;tool=a%26%22b&amp;run=r%2F1"


@loop_over(("tag", "query"), [
    ("{% with_query before=7 %}", "?tool=a&amp;tool=b&amp;q=%26&amp;before=7"),
    ("{% with_query %}", "?tool=a&amp;tool=b&amp;q=%26"),
    ("{% with_query tool=None %}", "?q=%26"), ('{% with_query tool="" q="x" %}', "?q=x"),
    ('{% with_query tool="c" %}', "?q=%26&amp;tool=c"),
    ("{% with_query after=0 %}", "?tool=a&amp;tool=b&amp;q=%26&amp;after=0"),
])  # fmt: skip
def test_a_changed_query_keeps_the_rest_and_begins_at_the_first_page(tag: str, query: str) -> None:
    assert render(tag, request_for("/calls/?tool=a&before=3&tool=b&q=%26&after=5")) == query


@loop_over(("path", "prefix", "html"), [
    ("/", "/", ' aria-current="page"'), ("/runs/", "/", " "), ("/runs/", "/runs/", ' aria-current="page"'),
    ("/runs/a/", "/runs/", ' aria-current="true"'), ("/calls/", "/runs/", " "),
])  # fmt: skip
def test_the_link_of_the_open_page_is_marked(path: str, prefix: str, html: str) -> None:
    assert render(f' {{% mark_current "{prefix}" %}}', request_for(path)) == html
    assert render(f'{{% mark_current "{prefix}" %}}') == ""


def test_addresses_are_built_and_pages_that_are_missing_are_a_fragment() -> None:
    assert render('{% link "call" 1 2 %}') == reverse("call", args=[1, 2])
    assert render('{% link "no-such-page" %}') == render('{% link "call" "x" %}') == "#"
    assert render('{% run_url "a/b" "s&" tab="steps" empty="" zero=0 %}') == "/runs/a%2Fb/?source=s%26&amp;tab=steps"
    assert render("{% version %}") == __version__


def test_the_title_counts_what_waits_for_those_who_are_signed_in(a_person: Callable[..., Any]) -> None:
    person = a_person("viewer")
    for count, prefix in ((0, ""), (3, "(3) ")):
        assert render("{% waiting_prefix %}", request_for("/", person), waiting={"count": count}) == prefix
    assert (
        render("{% waiting_prefix %}", request_for("/"), waiting={"count": 3}) == render("{% waiting_prefix %}") == ""
    )


@pytest.mark.parametrize(("role", "words"), [("viewer", ""), ("approver", "vote"), ("admin", "vote policy throw")])
def test_scripts_learn_what_the_reader_may_do(a_person: Callable[..., Any], role: str, words: str) -> None:
    assert render("{% permitted_actions %}", request_for("/", a_person(role))) == words
    assert render("{% permitted_actions %}") == ""


QUESTION = {"question": "Which <color>?", "options": [{"label": "Red"}]}
FORM = {"message": "Name <it>", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def test_questions_are_shown_until_they_are_answered() -> None:
    ask = Card("c", tool=CardTool("AskUserQuestion"), input={"questions": [QUESTION]}, has_input=True)
    source = "{% for question in card|questions %}{{ question.text }};{% endfor %}"
    assert render(source, card=ask) == "Which &lt;color&gt;?;"
    with_answer = ask.replace(approval=CardApproval(edited={"answers": {}}, has_edited=True))
    assert render(source, card=with_answer) == "" and render(source, card=ask.replace(approval=CardApproval())) != ""


def test_a_form_has_its_message_until_it_is_filled_in() -> None:
    form = Card("c", tool=CardTool("elicitation/create"), input=FORM, has_input=True)
    source = "{% if card|is_form %}{{ card|form_message }}{% endif %}"
    assert render(source, card=form) == "Name &lt;it&gt;"
    assert render(source, card=form.replace(approval=CardApproval(edited={}, has_edited=True))) == ""
    assert render(source, card=form.replace(tool=CardTool("Bash"))) == ""


def test_a_card_has_the_form_token_and_the_way_back_of_its_reader() -> None:
    call: ToolCall = call_of(a_card(ToolCallState.APPROVAL_REQUESTED))
    request = request_for("/calls/?tool=a%26b")
    html = render("{% card call %}", request, call=call, csrf_token="a-token")
    assert 'name="csrfmiddlewaretoken" value="a-token"' in html and "/calls/?tool=a%26b" in html
    line = render("{% card call form=form %}", request, call=call, form=CardForm.LISTED)
    assert line != html and "<article" in line
    assert "csrfmiddlewaretoken" not in render("{% card call %}", call=call) or 'value=""' in html
