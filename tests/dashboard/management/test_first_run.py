"""What the first start of a server creates and prints."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dashboard.accounts import roles, sign_in_links
from dashboard.environment import Environment
from dashboard.management import first_run
from tests.support.accounts import read_details

pytestmark = pytest.mark.django_db


def test_a_server_without_any_sign_in_prints_a_link_at_every_start(client: Client) -> None:
    first, second = first_run.prepare(Environment()), first_run.prepare(Environment())
    assert first.admin == second.admin and second.admin is not None
    assert (
        read_details("person.created") == [read_details("person.created")[0]]
        and read_details("person.created")[0]["superuser"] is True
    )
    assert client.post(sign_in_links.make_link(second.admin, "")).status_code == 302


def test_a_link_is_printed_for_the_admin_if_no_person_is_named(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    first_run.prepare(Environment())
    call_command("person", "link", "--url", "http://testserver")
    link = capsys.readouterr().out.splitlines()[-1]
    assert client.post(link.removeprefix("http://testserver")).status_code == 302


def test_an_admin_who_was_switched_off_is_offered_no_link(a_person: Any) -> None:
    first_run.prepare(Environment())
    a_person("admin", "bea")
    first = User.objects.get(username="admin")
    roles.set_active(first, False, seen_digest=roles.compute_state_digest(first), editor=first)
    assert first_run.prepare(Environment()).admin is None
