"""The kill switch on its page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("calls", "words"), [(1, "1 open call was denied."), (2, "2 open calls were denied.")])
def test_the_kill_switch_counts_the_calls_that_it_denied(
    client: Client, a_person: Any, a_call: Any, calls: int, words: str
) -> None:
    client.force_login(a_person("admin"))
    for number in range(calls):
        a_call("approval-requested", call_id=f"c{number}")
    page = client.post("/settings/killswitch/", {"to": "on", "reason": "a test"}, follow=True).content.decode()
    assert f"Every tool call is stopped. {words}" in page
