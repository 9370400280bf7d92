"""Sign-in links: who can use which, and how often."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from dashboard.accounts import roles, sign_in_links
from dashboard.environment import Environment
from dashboard.management import first_run
from tests.support.accounts import read_details
from tests.support.server import PATIENCE

pytestmark = pytest.mark.django_db


def test_a_link_fits_into_one_line_of_a_terminal() -> None:
    admin = roles.create_person("admin", role="admin")
    assert len(f"  Sign in      {sign_in_links.make_link(admin, 'http://127.0.0.1:8000')}") <= 80


@pytest.mark.parametrize("change", ["person", "until", "signature", "form"])
def test_a_changed_link_does_not_sign_in(client: Client, change: str) -> None:
    roles.create_person("bea", role="viewer")
    link = sign_in_links.make_link(roles.create_person("admin", role="admin"), "")
    person, until, signature = link.removeprefix("/login/link/").removesuffix("/").split(".")
    tokens = {
        "person": f"{User.objects.get(username='bea').pk}.{until}.{signature}",
        "until": f"{person}.z{until[1:]}.{signature}",
        "signature": f"{person}.{until}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        "form": f"0{person}.{until}.{signature}",
    }
    assert client.post(f"/login/link/{tokens[change]}/").status_code == 410
    assert client.post(link).status_code == 302


def test_an_old_link_does_not_let_in_and_says_what_to_type(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = first_run.prepare(Environment()).admin
    assert admin is not None
    link = sign_in_links.make_link(admin, "", -1)
    answer = client.get(link)
    assert answer.status_code == 410 and "manage.py person link" in answer.content.decode()
    assert "manage.py person link" in client.get("/login/").content.decode()


def test_only_the_newest_invitation_lets_in_and_none_after_switching_off(client: Client, a_person: Any) -> None:
    a_person("admin")
    bea = roles.create_person("bea", role="viewer")
    first, second = sign_in_links.make_link(bea, ""), sign_in_links.make_link(User.objects.get(pk=bea.pk), "")
    assert client.get(first).status_code == 410
    for active in (False, True):
        bea = User.objects.get(pk=bea.pk)
        roles.set_active(bea, active, seen_digest=roles.compute_state_digest(bea), editor=bea)
    assert client.get(second).status_code == 410
    assert client.post(sign_in_links.make_link(User.objects.get(pk=bea.pk), "")).status_code == 302
    again = sign_in_links.make_link(User.objects.get(pk=bea.pk), "")
    assert client.get("/").status_code == 200  # a new link ends no session
    assert Client().post(again).status_code == 302 and not read_details("person.password")


@pytest.mark.parametrize("token", ["", "x", "x:y:z", "\u202e", "a" * 10_000, "../../"])
def test_a_link_that_was_never_made_is_gone(token: str) -> None:
    for ask in (Client().get, Client().post):
        assert ask(f"/login/link/{token}/").status_code in (404, 410)


def test_a_link_for_who_was_switched_off_is_gone(bea: User) -> None:
    link = sign_in_links.make_link(bea, "")
    roles.set_active(bea, False, seen_digest=roles.compute_state_digest(bea), editor=bea)
    assert Client().get(link).status_code == 410 and Client().post(link).status_code == 410


def test_an_invitation_of_a_person_without_a_role_is_gone(a_person: Any) -> None:
    guest = roles.create_person("guest", role="viewer")
    link = sign_in_links.make_link(guest, "", sign_in_links.INVITATION_SECONDS)
    assert Client().get(link).status_code == 200
    guest.groups.clear()
    assert Client().get(link).status_code == 410 and Client().post(link).status_code == 410
    guest.groups.add(Group.objects.get(name="approver"))
    assert Client().post(link).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_many_who_use_a_link_at_once_one_comes_in(bea: User) -> None:
    link, ready, codes = sign_in_links.make_link(bea, ""), threading.Barrier(8, timeout=PATIENCE), []

    def press() -> None:
        try:
            ready.wait()
            codes.append(Client().post(link).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(codes) == [302] + [410] * 7
