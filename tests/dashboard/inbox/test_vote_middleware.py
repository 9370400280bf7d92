"""Votes on the event loop: only those that the pages would count, with the answer that the pages would give."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from channels.db import database_sync_to_async as in_thread
from django.contrib.sessions.models import Session
from django.http import QueryDict
from django.middleware.csrf import _get_new_csrf_string  # type: ignore[attr-defined]
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.rendering import card_cache
from dashboard.inbox.forms import BallotForm
from dashboard.inbox.vote_middleware import LARGE_CARD, VoteMiddleware, read_plain_ballot
from dashboard.serving.page_handler import PageHandler
from tests.support.voting_browser import FORM, Browser
from toolcards.audit.trail import AuditRow
from toolcards.models import Approval, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


class Pages:
    """Stands behind the middleware, and keeps the bodies that it lets through."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def make_browser(a_call: Any, an_approver: Any) -> Callable[..., Awaitable[Browser]]:
    def make(person: Any = None, **fields: Any) -> Browser:
        client = Client()
        client.force_login(person or an_approver)
        return Browser(client.cookies["toolcards_session"].value, a_call("approval-requested", **fields))

    return in_thread(make)


def load_states() -> list[str]:
    return list(Approval.objects.order_by("requested_at").values_list("state", flat=True))


@pytest.mark.parametrize(("decision", "state"), [("approve", "approved"), ("deny", "denied")])
async def test_a_plain_vote_counts_without_the_pages(make_browser: Any, decision: str, state: str) -> None:
    browser, pages = await make_browser(), Pages()
    browser.fields |= {"decision": decision, "reason": " Fine\u202e ", "note": "seen"}
    answer = await browser.send(VoteMiddleware(pages))
    assert (answer.status, pages.bodies) == (200, []) and answer.body.lstrip().startswith(b"<article")
    row = await Approval.objects.aget()
    assert (row.state, row.by_kind, row.by_name, row.reason) == (state, "human", "ann", "Fine\u202e")
    assert [vote.decision async for vote in Vote.objects.all()] == [decision]


def blank_token(page: bytes) -> bytes:
    """The page without the token of its form, which differs in each answer."""
    return re.sub(rb'(name="csrfmiddlewaretoken" value=")[^"]+', rb"\1", page)


def blank_end(header: str) -> str:
    """The header without the second at which its cookie ends: two answers may be a second apart."""
    return re.sub(r"(?i)(expires=)[^;]+", r"\1", header)


@pytest.mark.parametrize("encodings", [b"", b"gzip"])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_the_answer_is_that_of_the_pages(make_browser: Any, decision: str, encodings: bytes) -> None:
    browser = await make_browser()
    browser.fields["decision"] = decision
    browser.headers[b"accept-encoding"] = encodings
    answers = []
    for application in (VoteMiddleware(Pages()), PageHandler()):  # a repeated vote gets the same card
        card_cache.clear()
        answer = await browser.send(application)
        body = gzip.decompress(answer.body) if encodings else answer.body
        headers = {name: blank_end(value) for name, value in answer.headers.items()}
        answers.append((answer.status, {**headers, "content-length": ""}, blank_token(body)))
    assert answers[0] == answers[1]


async def test_an_answer_names_its_length_once(make_browser: Any) -> None:
    answer = await (await make_browser()).send(VoteMiddleware(Pages()))
    assert answer.names.count("content-length") == 1 and answer.headers["content-length"] == str(len(answer.body))


async def test_a_large_card_is_the_same(make_browser: Any) -> None:
    browser = await make_browser(input={"command": "x" * LARGE_CARD})
    answers = [await browser.send(application) for application in (VoteMiddleware(Pages()), PageHandler())]
    assert (
        blank_token(answers[0].body) == blank_token(answers[1].body) and answers[0].status == answers[1].status == 200
    )


PASSED_ON: dict[str, Callable[[Browser], Any]] = {
    "no session": lambda browser: browser.headers.update({b"cookie": b""}),
    "an unknown session": lambda browser: browser.headers.update(
        {b"cookie": b"toolcards_session=" + b"x" * 32 + b";" + browser.headers[b"cookie"].split(b";")[1]}
    ),
    "no token": lambda browser: browser.headers.pop(b"x-csrftoken"),
    "another token": lambda browser: browser.headers.update({b"x-csrftoken": _get_new_csrf_string().encode()}),
    "another origin": lambda browser: browser.headers.update({b"origin": b"http://evil.example"}),
    "another host": lambda browser: browser.headers.update({b"host": b"evil.example"}),
    "a plain form": lambda browser: browser.headers.pop(b"hx-request"),
    "another form": lambda browser: browser.headers.update({b"content-type": b"multipart/form-data; boundary=x"}),
    "another charset": lambda browser: browser.headers.update({b"content-type": FORM[:-5] + b"latin1"}),
    "chunks": lambda browser: browser.headers.update({b"transfer-encoding": b"chunked"}),
    "a long body": lambda browser: browser.fields.update(edited_args="x" * (64 << 10)),
    "a NUL": lambda browser: browser.fields.update(edited_args="\0"),
    "a query": lambda browser: setattr(browser, "query", b"a=1"),
    "another page": lambda browser: setattr(browser, "path", browser.path.replace("vote", "undo")),
    "another method": lambda browser: setattr(browser, "method", "PUT"),
    "an unknown approval": lambda browser: setattr(browser, "path", "/approvals/apr_nothing/vote"),
    "an older revision": lambda browser: browser.fields.update(rev="1"),
    "other arguments": lambda browser: browser.fields.update(args_sha256="0" * 64),
    "another view": lambda browser: browser.fields.update(view_sha256="0" * 64),
    "an unknown decision": lambda browser: browser.fields.update(decision="maybe"),
    "an edit": lambda browser: browser.fields.update(decision="edit", edited_args="{}"),
    "an answer": lambda browser: browser.fields.update(decision="answer"),
    "a grant": lambda browser: browser.fields.update(grant="nothing like it"),
    "no number": lambda browser: browser.fields.update(rev="1e3"),
    "a long reason": lambda browser: browser.fields.update(reason="x" * 2_001),
    "a wrong number of minutes": lambda browser: browser.fields.update(grant_minutes="x"),
}


@pytest.mark.parametrize("name", PASSED_ON)
async def test_what_is_not_plain_or_refused_goes_to_the_pages_as_it_came(make_browser: Any, name: str) -> None:
    browser, pages = await make_browser(), Pages()
    PASSED_ON[name](browser)
    body = urlencode(browser.fields).encode()
    answer = await browser.send(VoteMiddleware(pages))
    assert (answer.status, pages.bodies) == (299, [body])
    assert await in_thread(load_states)() == ["pending"] and not await Vote.objects.aexists()


def end_session(person: Any) -> None:
    Session.objects.update(expire_date=timezone.now())


def change_password(person: Any) -> None:
    person.set_password("another one")
    person.save()


def lock_out(person: Any) -> None:
    person.is_active = False
    person.save()


def take_role(person: Any) -> None:
    person.groups.clear()


@pytest.mark.parametrize("change", [end_session, change_password, lock_out, take_role])
async def test_who_may_not_vote_any_more_goes_to_the_pages(make_browser: Any, an_approver: Any, change: Any) -> None:
    browser, pages = await make_browser(), Pages()
    await in_thread(change)(an_approver)
    assert (await browser.send(VoteMiddleware(pages))).status == 299
    assert await in_thread(load_states)() == ["pending"]


async def test_who_lost_the_role_gets_no_card_for_a_repeated_vote(make_browser: Any, an_approver: Any) -> None:
    browser, pages = await make_browser(), Pages()
    assert (await browser.send(VoteMiddleware(pages))).status == 200
    await in_thread(take_role)(an_approver)
    assert (await browser.send(VoteMiddleware(pages))).status == 299


async def test_a_viewer_goes_to_the_pages(make_browser: Any, a_person: Any) -> None:
    browser, pages = await make_browser(await in_thread(a_person)("viewer")), Pages()
    assert (await browser.send(VoteMiddleware(pages))).status == 299
    assert await in_thread(load_states)() == ["pending"]


async def test_a_vote_after_the_time_limit_goes_to_the_pages(make_browser: Any) -> None:
    def expire() -> None:
        with allow_log_writes():
            Approval.objects.update(expires_at=1.0)

    browser, pages = await make_browser(), Pages()
    await in_thread(expire)()
    assert (await browser.send(VoteMiddleware(pages))).status == 299


async def test_of_many_votes_at_once_each_counts_for_its_call(make_browser: Any) -> None:
    browsers = [await make_browser(call_id=f"call-{number}") for number in range(12)]
    for number, browser in enumerate(browsers):
        browser.fields["decision"] = "deny" if number % 3 else "approve"
    votes, pages = VoteMiddleware(Pages()), Pages()
    late = [await make_browser(call_id="call-late")]
    late[0].fields["rev"] = "1"  # refused in the commit that counts the others
    answers = await asyncio.gather(
        *[browser.send(votes) for browser in browsers],
        late[0].send(VoteMiddleware(pages)),
        browsers[0].send(votes),
    )
    assert [answer.status for answer in answers] == [200] * 12 + [299, 200]
    for browser, answer in zip(browsers, answers, strict=False):
        row = await Approval.objects.aget(pk=browser.approval)
        assert row.state == ("denied" if browser.fields["decision"] == "deny" else "approved")
        assert f'data-call-id="{browser.call.call_id}"'.encode() in answer.body
    assert await Vote.objects.acount() == 12


async def test_who_disconnects_before_the_body_is_whole_has_not_voted(make_browser: Any) -> None:
    browser, pages, messages = await make_browser(), Pages(), [{"type": "http.disconnect"}]

    async def receive() -> Any:
        return messages.pop()

    scope = {
        "type": "http", "method": "POST", "path": browser.path, "root_path": "", "query_string": b"",
        "headers": [*browser.headers.items(), (b"content-length", b"100")],
    }  # fmt: skip
    await VoteMiddleware(pages)(scope, receive, None)
    assert pages.bodies == [] and await in_thread(load_states)() == ["pending"]


async def test_the_vote_is_in_the_audit_trail_with_its_person(make_browser: Any) -> None:
    await (await make_browser()).send(VoteMiddleware(Pages()))
    row = await AuditRow.objects.aget(act="vote")
    assert (row.actor_kind, row.actor) == ("human", "ann")
    assert json.loads(row.detail)["decision"] == "approve"


WORDS = st.one_of(
    st.sampled_from(["", " ", "approve", "deny", "edit", "answer", "0", "7", " 7 ", "-1", "1e3", "\uff17", "ab" * 32,
                     "AB", "x" * 101, "x" * 2_001, "null", "run", "{}", "\0", "until", "15"]),
    st.text(max_size=5),
)  # fmt: skip
PLAIN = st.fixed_dictionaries({"decision": st.sampled_from(["approve", "deny"]), "rev": st.just("3")})
FIELDS = st.lists(
    st.tuples(st.sampled_from([*BallotForm.base_fields, "next", "csrfmiddlewaretoken"]), WORDS), max_size=8
)


@given(PLAIN, FIELDS)
def test_a_ballot_that_is_read_is_the_one_of_the_form(plain: dict[str, str], fields: list[tuple[str, str]]) -> None:
    query = QueryDict(urlencode([*plain.items(), *fields], errors="surrogatepass"))
    ballot = read_plain_ballot("apr_1", query)
    if ballot is not None:
        form = BallotForm(query)
        assert form.is_valid(), form.errors
        assert ballot == form.ballot("apr_1", signed_in_at=None)  # type: ignore[arg-type]


def test_what_the_form_of_a_card_sends_is_plain() -> None:
    form_data = {
        "decision": "approve", "rev": "3", "args_sha256": "ab" * 32, "view_sha256": "cd" * 32, "reason": "Fine ",
        "grant": "", "edited_args": "{}",
    }  # fmt: skip
    ballot = read_plain_ballot("apr_1", QueryDict(urlencode(form_data)))
    assert ballot is not None and (ballot.rev, ballot.reason, ballot.edited_args) == (3, "Fine", None)
