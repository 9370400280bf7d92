"""Any vote request gets the same answer from middleware and pages, and leaves the same votes, states and audit rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from channels.db import database_sync_to_async as in_thread
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.middleware.csrf import _get_new_csrf_string  # type: ignore[attr-defined]
from django.test import Client
from django.utils import timezone

from dashboard.inbox.vote_middleware import VoteMiddleware
from dashboard.serving.page_handler import PageHandler
from tests.support.voting_browser import Browser
from toolcards import gate
from toolcards.audit.trail import AuditRow
from toolcards.models import Approval, Source, ToolCall, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)
MIXES, SEED = 12, 20261125
Change = Callable[[Browser], Any]


def header(name: bytes, value: bytes | None) -> Change:
    def change(browser: Browser) -> None:
        browser.headers.pop(name, None)
        if value is not None:
            browser.headers[name] = value

    return change


def field(name: str, value: str | None) -> Change:
    def change(browser: Browser) -> None:
        browser.fields.pop(name, None)
        if value is not None:
            browser.fields[name] = value

    return change


def place(**values: Any) -> Change:
    return lambda browser: [setattr(browser, name, value) for name, value in values.items()]


def path(change: Callable[[str], str]) -> Change:
    return lambda browser: setattr(browser, "path", change(browser.path))


def cookies(change: Callable[[bytes], bytes]) -> Change:
    return lambda browser: browser.headers.update({b"cookie": change(browser.headers[b"cookie"])})


def extra(text: bytes) -> Change:
    return lambda browser: setattr(browser, "extra", browser.extra + text)


def token_in_form(browser: Browser) -> None:
    token = browser.headers.pop(b"x-csrftoken", None)
    if token:
        browser.fields["csrfmiddlewaretoken"] = token.decode()


def people(change: Callable[[Any], Any]) -> Change:
    def apply(browser: Browser) -> None:
        person = User.objects.get(username="ann")
        change(person)
        person.save()

    return apply


def rows(**columns: Any) -> Change:
    def apply(browser: Browser) -> None:
        with allow_log_writes():
            Approval.objects.filter(pk=browser.approval).update(**columns)

    return apply


CHANGES: dict[str, Change] = {
    "deny": field("decision", "deny"),
    "edit": lambda b: b.fields.update(decision="edit", edited_args='{"command": "ls -l"}'),
    "a broken edit": lambda b: b.fields.update(decision="edit", edited_args='{"command"'),
    "an answer": field("decision", "answer"),
    "no decision": field("decision", None),
    "an odd decision": field("decision", "Approve"),
    "no rev": field("rev", None),
    "an older rev": field("rev", "1"),
    "a rev with zeros": lambda b: b.fields.update(rev="000" + b.fields["rev"]),
    "a rev with spaces": lambda b: b.fields.update(rev=f" {b.fields['rev']} "),
    "a decimal rev": lambda b: b.fields.update(rev=f"{b.fields['rev']}.0"),
    "a negative rev": field("rev", "-1"),
    "a large rev": field("rev", "9" * 30),
    "other digits": field("rev", "٣"),
    "no digest": field("args_sha256", None),
    "another digest": field("args_sha256", "0" * 64),
    "a long digest": field("args_sha256", "0" * 65),
    "a digest in capitals": lambda b: b.fields.update(args_sha256=b.fields["args_sha256"].upper()),
    "a digest with spaces": lambda b: b.fields.update(args_sha256=b.fields["args_sha256"] + " "),
    "another view": field("view_sha256", "a" * 64),
    "a reason": field("reason", "  Fine\r\n\u202e\x1b[0m <b> "),
    "a long reason": field("reason", "x" * 2_000),
    "too long a reason": field("reason", "x" * 2_001),
    "a long reason with spaces": field("reason", " " + "x" * 2_000 + " "),
    "a note": field("note", "seen ☃"),
    "an id": field("client_decision_id", "a" * 100),
    "too long an id": field("client_decision_id", "a" * 101),
    "a grant": field("grant", "call"),
    "a broken grant": field("grant", "{"),
    "minutes": field("grant_minutes", "5"),
    "no minutes": field("grant_minutes", "nan"),
    "an unread edit": field("edited_args", "{"),
    "a long unread edit": field("edited_args", "x" * (40 << 10)),
    "a NUL": field("reason", "a\0b"),
    "a NUL in a field of no one": field("other", "\0"),
    "a NUL in the query": place(query=b"a=%00"),
    "a query": place(query=b"decision=deny&rev=1"),
    "broken UTF-8 in the query": place(query=b"a=\xff"),
    "escaped bytes in the query": place(query=b"a=%ff"),
    "the fields twice": extra(b"&decision=deny&decision=approve"),
    "the other decision last": extra(b"&decision=deny"),
    "a NUL in the first of two": extra(b"&note=%00&note=x"),
    "broken UTF-8": extra(b"&reason=%ff%fe"),
    "raw bytes": extra(b"&reason=\xff\xfe"),
    "a surrogate": extra(b"&reason=%ed%a0%80"),
    "semicolons": extra(b";decision=deny"),
    "many fields": extra(b"&x=1" * 1_100),
    "no session": cookies(lambda value: value.partition(b"; ")[2]),
    "a changed session": cookies(lambda value: value.replace(b"session=", b"session=x")),
    "an empty session": cookies(lambda value: b"toolcards_session=; " + value.partition(b"; ")[2]),
    "a session of odd characters": cookies(
        lambda value: b'toolcards_session="\xff\\000"; ' + value.partition(b"; ")[2]
    ),
    "two sessions": cookies(lambda value: b"toolcards_session=nothing; " + value),
    "two sessions, the other last": cookies(lambda value: value + b"; toolcards_session=nothing"),
    "no CSRF cookie": cookies(lambda value: value.partition(b"; ")[0]),
    "no token": header(b"x-csrftoken", None),
    "another token": header(b"x-csrftoken", _get_new_csrf_string().encode()),
    "a broken token": header(b"x-csrftoken", b"\xff"),
    "the token in the form": token_in_form,
    "no origin": header(b"origin", None),
    "another origin": header(b"origin", b"http://evil.example"),
    "another port": header(b"origin", b"http://127.0.0.1:81"),
    "another scheme": header(b"origin", b"https://127.0.0.1"),
    "a null origin": header(b"origin", b"null"),
    "another referer": header(b"referer", b"http://evil.example/"),
    "a cross-site fetch": header(b"sec-fetch-site", b"cross-site"),
    "another host": header(b"host", b"evil.example"),
    "a broken host": header(b"host", b"a b"),
    "no host": header(b"host", None),
    "a host with a port": header(b"host", b"127.0.0.1:80"),
    "https of a proxy": header(b"x-forwarded-proto", b"https"),
    "another host of a proxy": header(b"x-forwarded-host", b"evil.example"),
    "no htmx": header(b"hx-request", None),
    "odd htmx": header(b"hx-request", b"True"),
    "gzip": header(b"accept-encoding", b"gzip"),
    "an agent's key": header(b"authorization", b"Bearer tck_nothing"),
    "another method in a header": header(b"x-http-method-override", b"GET"),
    "no type": header(b"content-type", None),
    "JSON": header(b"content-type", b"application/json"),
    "latin1": header(b"content-type", b"application/x-www-form-urlencoded; charset=latin1"),
    "an unknown charset": header(b"content-type", b"application/x-www-form-urlencoded; charset=utf-9"),
    "two charsets": header(b"content-type", b"application/x-www-form-urlencoded; charset=utf-8; charset=utf-16"),
    "a type in capitals": header(b"content-type", b"Application/X-WWW-Form-Urlencoded"),
    "a broken type": header(b"content-type", b"\xff/;;=;"),
    "GET": place(method="GET"),
    "PUT": place(method="PUT"),
    "HEAD": place(method="HEAD"),
    "a slash at the end": path(lambda value: value + "/"),
    "two slashes": path(lambda value: "/" + value),
    "an unknown approval": path(lambda value: value.replace("apr_", "apr_x")),
    "a NUL in the path": path(lambda value: value.replace("apr_", "apr_\0")),
    "a line feed in the path": path(lambda value: value.replace("/vote", "\n/vote")),
    "a line feed at the end": path(lambda value: value + "\n"),
    "capitals in the path": path(lambda value: value.replace("vote", "VOTE")),
    "an old sign-in": people(
        lambda person: setattr(person, "last_login", timezone.now() - timezone.timedelta(hours=1))
    ),
    "a changed password": people(lambda person: person.set_password("another one")),
    "a locked-out person": people(lambda person: setattr(person, "is_active", False)),
    "no role": people(lambda person: person.groups.clear()),
    "an ended session": lambda browser: Session.objects.update(expire_date=timezone.now()),
    "a late vote": rows(expires_at=1.0),
    "a broken session": lambda browser: Session.objects.update(session_data="x"),
}
ASKS: dict[str, Any] = {
    "plain": {}, "two people": {"quorum": 2}, "recent sign-in": {"reauth": True}, "a reason": {"reason": "always"},
    "admins only": {"approvers": ["group:admin"]},
}  # fmt: skip


def load(browser: Browser) -> Any:
    """Return what the request has left."""
    row, call = Approval.objects.get(pk=browser.approval), ToolCall.objects.get(pk=browser.call.pk)
    votes = list(Vote.objects.filter(approval=row).values_list("person__username", "decision", "reason", "note"))
    acts = AuditRow.objects.filter(run=call.run.name).order_by("seq")
    details = [(act.act, act.actor_kind, act.actor, sorted(act.details)) for act in acts]
    return row.state, row.by_kind, row.by_name, row.reason, row.edited, call.state, votes, details


@pytest.fixture
def prepare(policy: Any, an_approver: Any, a_person: Any, source: Source) -> Any:
    """Give a function that makes a person, a call and a browser, all equal each time."""
    group = an_approver.groups.get()
    a_person("admin")

    def make(name: str, terms: dict[str, Any], changes: list[str]) -> Browser:
        person = User.objects.get(username="ann")
        person.is_active = True
        person.groups.set([group])
        person.save()
        policy({"default": "ask", "rules": [{"id": "r", "effect": "ask", "match": {"tool": ["bash"]}, "ask": terms}]})
        gate.decide(source, gate.DecisionRequest(name, "c", "bash", {"command": "ls"}, place=name))
        client = Client()
        client.force_login(person)
        call = ToolCall.objects.get(run__name=name)
        browser = Browser(client.cookies["toolcards_session"].value, call)
        for change in changes:
            CHANGES[change](browser)
        return browser

    return in_thread(make)


CHOICES = random.Random(SEED)
SINGLE = [[], *[[name] for name in CHANGES]]
CASES = [("plain", changes) for changes in SINGLE]
CASES += [(ask, CHOICES.sample(sorted(CHANGES), CHOICES.randint(0, 3))) for ask in ASKS for _ in range(MIXES)]


@pytest.mark.thorough
async def test_the_middleware_answers_as_the_pages_do(prepare: Any) -> None:
    for number, (ask, changes) in enumerate(CASES):
        outcomes = []
        for name, application in (("page", PageHandler()), ("middleware", VoteMiddleware(PageHandler()))):
            browser = await prepare(f"{number}-{name}", ASKS[ask], changes)
            answer = await browser.send(application, urlencode(browser.fields).encode() + browser.extra)
            outcomes.append((answer.status, sorted(answer.headers), await in_thread(load)(browser)))
        assert outcomes[0] == outcomes[1], (ask, changes)
