"""The end of push notifications: where a person signs out, or is deactivated."""

from __future__ import annotations

from typing import Any

from django.test import Client

from dashboard.accounts import roles
from tests.support.push_service import BROWSER, ENDPOINT
from toolcards.models import PushBrowser


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
