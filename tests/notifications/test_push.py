"""Web Push from the gate to the browser: who gets what, what a message reveals, and what push services answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.support.push_service import Browser, PushService, verify_authorization
from toolcards import gate
from toolcards.models import Delivery, PushBrowser, ToolCall
from toolcards.notifications import dispatcher, push, retries, subscriptions

BROWSER = Browser()
Switch = Callable[..., PushBrowser]
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def _nobody_yet(db: None) -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


@pytest.fixture
def service(limits: Any) -> Iterator[PushService]:
    with PushService() as running:
        limits(push_private=(running.host,))
        yield running


@pytest.fixture
def switch_on(service: PushService) -> Switch:
    """Give `switch_on(person)`: a browser of the person."""

    def make(person: User, name: str = "one", **fields: Any) -> PushBrowser:
        keys = BROWSER.fields(service.endpoint(name))
        row = PushBrowser.objects.create(
            person=person, endpoint_sha256=name, label="Chrome on Android", **keys,
            sign_in=push.digest_sign_in(person.get_session_auth_hash()), **fields,
        )  # fmt: skip
        subscriptions.clear_cache()
        return row

    return make


def read(service: PushService) -> list[dict[str, Any]]:
    """Return the messages that arrived, decrypted."""
    return [json.loads(BROWSER.decrypt(body)) for _, _, body in service.requests]


def only() -> Delivery:
    """Return the only delivery about the call."""
    return Delivery.objects.get(event="approval.requested")


def test_a_waiting_call_arrives_encrypted_with_both_answers(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    switch_on(an_approver)
    call = a_call("approval-requested", input={"command": f"git push\n  --token {SECRET}"})
    assert dispatcher.send_due() == 1 and only().state == "delivered"
    path, headers, body = service.requests[0]
    (message,) = read(service)
    ask = call.as_card().approval
    assert path == "/push/one" and message["path"] == f"/approvals/{ask.id}/" and message["answers"]
    assert (
        message["title"].endswith("asks for approval") and "git push" in message["body"] and "\n" not in message["body"]
    )
    assert SECRET not in json.dumps(message) and b"git push" not in body
    assert headers["Content-Encoding"] == "aes128gcm" and headers["Urgency"] == "high"
    assert 0 < int(headers["TTL"]) <= 86_400 and headers["Topic"] == message["tag"] and len(message["tag"]) == 32
    assert ask.id not in headers["Topic"]
    verify_authorization(headers["Authorization"], f"http://{service.host}", time.time())


@pytest.mark.parametrize(("decision", "word"), [("approve", "Approved: bash"), ("deny", "Denied: bash")])
def test_the_answer_replaces_the_question(
    decision: str, word: str, switch_on: Switch, service: PushService, an_approver: User, a_call: Any, ballot: Any
) -> None:
    switch_on(an_approver)
    call = a_call("approval-requested")
    dispatcher.send_due()
    gate.vote(an_approver, ballot(call, decision))
    dispatcher.send_due()
    question, answer = read(service)
    assert answer["tag"] == question["tag"] and answer["over"] and not answer["answers"] and answer["title"] == word


def test_nothing_is_sent_of_a_call_that_was_decided_before(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any, ballot: Any
) -> None:
    switch_on(an_approver)
    gate.vote(an_approver, ballot(a_call("approval-requested"), "deny"))
    dispatcher.send_due()
    assert service.requests == [] and {*Delivery.objects.values_list("state", flat=True)} == {"dropped"}


def test_people_without_a_vote_get_no_buttons_and_people_without_a_role_get_nothing(
    switch_on: Switch, service: PushService, a_person: Any, a_call: Any
) -> None:
    switch_on(a_person("viewer"), "viewer")
    switch_on(User.objects.create_user("nobody"), "nobody")
    a_call("approval-requested")
    dispatcher.send_due()
    assert [path for path, _, _ in service.requests] == ["/push/viewer"] and not read(service)[0]["answers"]


def test_a_browser_with_a_higher_minimum_severity_is_left_alone(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    switch_on(an_approver, severity="critical")
    a_call("approval-requested")
    assert dispatcher.send_due() == 0 and not Delivery.objects.exists()


@pytest.mark.parametrize("how", ["password", "inactive"])
def test_a_new_password_or_deactivation_ends_it(
    how: str, switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    row = switch_on(an_approver)
    a_call("approval-requested")
    if how == "password":
        an_approver.set_password("another password for tests")
        an_approver.save()
    else:
        User.objects.filter(pk=an_approver.pk).update(is_active=False)
    dispatcher.send_due()
    assert service.requests == [] and only().state == "dropped"
    assert not PushBrowser.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_removed(
    status: int, switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    switch_on(an_approver)
    a_call("approval-requested")
    service.status = status
    dispatcher.send_due()
    assert only().state == "failed" and only().status == status and not PushBrowser.objects.exists()
    assert dispatcher.send_due(time.time() + 86_400) == 0


@pytest.mark.parametrize(
    ("status", "headers", "least"), [(429, {"Retry-After": "77"}, 77), (503, {}, 3), (500, {"Retry-After": "x"}, 3)]
)
def test_a_busy_push_service_is_tried_again_later(
    status: int, headers: dict[str, str], least: float, switch_on: Switch, service: PushService, an_approver: User,
    a_call: Any,
) -> None:  # fmt: skip
    row = switch_on(an_approver)
    a_call("approval-requested")
    service.status, service.answer_headers = status, headers
    now = time.time()
    dispatcher.send_due(now)
    row.refresh_from_db()
    assert only().state == "pending" and only().next_at >= now + least and str(status) in row.trouble
    service.status, service.answer_headers = 201, {}
    dispatcher.send_due(only().next_at)
    row.refresh_from_db()
    assert only().state == "delivered" and row.trouble == "" and len(service.requests) == 2


@pytest.mark.parametrize("status", [301, 400, 401, 403, 413])
def test_what_a_push_service_refuses_is_not_sent_again(
    status: int, switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    row = switch_on(an_approver)
    service.status, service.answer_headers = status, {"Location": "http://127.0.0.1/"}
    a_call("approval-requested")
    dispatcher.send_due()
    row.refresh_from_db()
    assert only().state == "failed" and row.trouble and len(service.requests) == 1


def test_a_push_service_that_never_recovers_is_given_up(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    switch_on(an_approver)
    a_call("approval-requested")
    service.status = 503
    now = time.time()
    for _ in range(len(retries.BROWSER_BACKOFF) + 1):
        assert dispatcher.send_due(now) == 1
        now += 10_000
    assert only().state == "failed" and len(service.requests) == len(retries.BROWSER_BACKOFF) + 1


def test_an_endpoint_inside_the_network_is_never_contacted(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any, limits: Any
) -> None:
    switch_on(an_approver)
    limits(push_private=(), webhook_private=(service.host,))
    a_call("approval-requested")
    dispatcher.send_due()
    assert service.requests == [] and only().state == "failed"


def test_an_endpoint_that_no_key_decrypts_is_removed(
    switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    row = switch_on(an_approver)
    a_call("approval-requested")
    PushBrowser.objects.filter(pk=row.pk).update(endpoint=push.UnreadableText("sealed:1:AAAA"))
    dispatcher.send_due()
    assert service.requests == [] and only().state == "dropped" and not PushBrowser.objects.exists()


@pytest.mark.parametrize("letter", ["x", "\U0001f600", "\u202e", '"', "\u2028"])
def test_hostile_text_fits_and_stays_text(
    letter: str, switch_on: Switch, service: PushService, an_approver: User, a_call: Any
) -> None:
    switch_on(an_approver)
    a_call("approval-requested", tool="mcp__" + "x" * 150, input={"command": letter * 9000})
    dispatcher.send_due()
    (message,) = read(service)
    assert len(message["title"]) <= push.MAX_TITLE and len(message["body"]) <= push.MAX_BODY
    assert not {"\u202e", "\n"} & {*message["body"]}


def test_an_escalation_goes_to_the_people_it_names(
    switch_on: Switch, service: PushService, an_approver: User, a_person: Any, a_call: Any
) -> None:
    lead = a_person("approver", "lena")
    switch_on(an_approver, "ann")
    switch_on(lead, "lena")
    call: ToolCall = a_call("approval-requested")
    dispatcher.send_due()
    service.requests.clear()
    first_delivery = Delivery.objects.filter(event="approval.requested").earliest("pk")
    payload = first_delivery.decoded_payload | {"event": "approval.escalated", "escalated_to": ["lena"]}
    for row in PushBrowser.objects.all():
        Delivery.objects.create(
            target=f"push:{row.pk}", event_id=f"evt_{call.pk}-escalated-9", event="approval.escalated", severity="high",
            payload=json.dumps(payload), created_at=0, next_at=0,
        )  # fmt: skip
    dispatcher.send_due()
    assert [path for path, _, _ in service.requests] == ["/push/lena"]
