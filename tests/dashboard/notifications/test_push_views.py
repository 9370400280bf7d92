"""The page of push notifications: each person's own browsers, a limit, hostile subscriptions, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from dashboard.accounts import roles
from dashboard.notifications.push_views import MAX_BROWSERS, describe_browser
from tests.support.push_service import BROWSER, ENDPOINT, PushService
from toolcards import encryption
from toolcards.audit.rows import AuditRow
from toolcards.models import Delivery, PushBrowser
from toolcards.notifications import dispatcher, push_encryption

PHONE = (
    "Mozilla/5.0 (Linux; Android 15; Pixel) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36"
)


def test_a_browser_is_added_sealed_and_listed(ann: Client) -> None:
    answer = ann.post("/settings/push/", BROWSER.fields(ENDPOINT), headers={"User-Agent": PHONE}, follow=True)
    row = PushBrowser.objects.get()
    assert row.endpoint == ENDPOINT and row.label == "Chrome on Android" and row.label in answer.content.decode()
    assert ENDPOINT not in answer.content.decode() and push_encryption.get_public_key() in answer.content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT endpoint, auth FROM toolcards_pushbrowser")
        assert all(text.startswith(encryption.MARK) for text in cursor.fetchone())
    act = AuditRow.objects.get(act="notify.push_on")
    assert "push.example" not in json.dumps(act.detail)


def test_adding_the_same_browser_again_keeps_one_row_and_its_next_person_takes_it(ann: Client, a_person: Any) -> None:
    for _ in range(2):
        ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    other = Client()
    other.force_login(a_person("viewer"))
    other.post("/settings/push/", BROWSER.fields(ENDPOINT))
    assert PushBrowser.objects.get().person.get_username() == "a-viewer"


def test_a_person_has_a_limited_number_of_browsers(ann: Client) -> None:
    for number in range(MAX_BROWSERS):
        assert ann.post("/settings/push/", BROWSER.fields(f"{ENDPOINT}{number}")).status_code == 302
    answer = ann.post("/settings/push/", BROWSER.fields(f"{ENDPOINT}x"))
    assert answer.status_code == 422 and "Remove one first" in answer.content.decode()
    assert ann.post("/settings/push/", BROWSER.fields(f"{ENDPOINT}0")).status_code == 302
    assert PushBrowser.objects.count() == MAX_BROWSERS


@pytest.mark.parametrize(
    "endpoint",
    [
        "", "http://push.example/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest/meta-data/",
        "https://user:pw@push.example/", "javascript:alert(1)", "https://push.example/\r\nX: y", "https://0x7f000001/",
        "https://push.example/" + "x" * 2000, " https://push.example/", "https://ⓛocalhost/",
    ],
)  # fmt: skip
def test_a_hostile_endpoint_is_refused(ann: Client, endpoint: str) -> None:
    assert ann.post("/settings/push/", BROWSER.fields(endpoint)).status_code == 422
    assert not PushBrowser.objects.exists()


def test_a_viewer_cannot_name_a_path_on_a_host_that_only_webhooks_may_reach(
    ann: Client, limits: Callable[..., None]
) -> None:
    with PushService() as service:
        limits(webhook_private=(service.host, "127.0.0.1"))
        answer = ann.post("/settings/push/", BROWSER.fields(service.endpoint("admin/restart")))
        assert answer.status_code == 422
        assert not PushBrowser.objects.exists() and service.requests == []


@pytest.mark.parametrize("change", [{"auth": ""}, {"auth": "AA"}, {"public_key": "x" * 87}])
def test_damaged_keys_are_refused(ann: Client, change: dict[str, str]) -> None:
    assert ann.post("/settings/push/", BROWSER.fields(ENDPOINT) | change).status_code == 422


def test_people_reach_only_their_own_browsers(ann: Client, a_person: Any) -> None:
    ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    row, other = PushBrowser.objects.get(), Client()
    other.force_login(a_person("admin"))
    for action in ("remove", "try", "severity"):
        assert other.post(f"/settings/push/{row.pk}/{action}/", {"severity": "high"}).status_code == 404
    assert ann.post(f"/settings/push/{row.pk}/explode/").status_code == 404
    assert ann.post(f"/settings/push/{row.pk}/severity/", {"severity": "huge"}).status_code == 404
    assert row.label not in other.get("/settings/push/").content.decode()


def test_the_minimum_severity_is_kept_and_a_browser_is_removed(ann: Client) -> None:
    ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    row = PushBrowser.objects.get()
    ann.post(f"/settings/push/{row.pk}/severity/", {"severity": "high"})
    row.refresh_from_db()
    assert row.severity == "high"
    ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    row.refresh_from_db()
    assert row.severity == "high"
    ann.post(f"/settings/push/{row.pk}/remove/")
    assert not PushBrowser.objects.exists() and AuditRow.objects.filter(act="notify.push_off").exists()


def test_a_test_message_arrives_once(ann: Client, limits: Callable[..., None]) -> None:
    with PushService() as service:
        limits(push_private=(service.host,))
        ann.post("/settings/push/", BROWSER.fields(service.endpoint()))
        for _ in range(2):
            ann.post(f"/settings/push/{PushBrowser.objects.get().pk}/try/")
        assert Delivery.objects.count() == 1 and dispatcher.send_due() == 1
        message = json.loads(BROWSER.decrypt(service.requests[0][2]))
    assert message["title"] == "Push notifications work" and message["path"] == "/settings/push/"


def test_without_the_key_the_page_says_why(ann: Client, settings: Any, an_approver: Any) -> None:
    push_encryption.store_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", []
    ann.force_login(an_approver)
    html = ann.get("/settings/push/").content.decode()
    assert "cannot decrypt its push key" in html and 'id="push-on"' not in html
    assert ann.post("/settings/push/", BROWSER.fields(ENDPOINT)).status_code == 422


@pytest.mark.parametrize(
    ("agent", "label"),
    [
        (PHONE, "Chrome on Android"), ("", "A browser"), ("<script>", "A browser"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
    ],
)  # fmt: skip
def test_browsers_get_plain_names(agent: str, label: str) -> None:
    assert describe_browser(agent) == label


def test_signing_out_ends_it_in_this_browser_only(ann: Client) -> None:
    ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    other = Client()
    other.post("/login/", {"username": "ann", "password": "a password for tests"})
    other.post("/settings/push/", BROWSER.fields(f"{ENDPOINT}other"))
    ann.post("/logout/")
    assert PushBrowser.objects.get().endpoint == f"{ENDPOINT}other"


def test_deactivation_ends_it_and_activation_does_not_bring_it_back(
    ann: Client, an_approver: Any, a_person: Any
) -> None:
    ann.post("/settings/push/", BROWSER.fields(ENDPOINT))
    admin = a_person("admin")
    for active in (False, True):
        an_approver.refresh_from_db()
        roles.set_active(an_approver, active, seen_digest=roles.compute_state_digest(an_approver), editor=admin)
    assert not PushBrowser.objects.exists()
