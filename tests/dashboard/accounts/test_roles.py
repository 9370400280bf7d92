"""Roles: one admin always stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from dashboard.accounts import roles
from tests.support.server import PATIENCE

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_who_switch_each_other_off_one_stays(a_person: Any) -> None:
    both = [a_person("admin", "ann"), a_person("admin", "bob")]
    ready, refusal = threading.Barrier(2, timeout=PATIENCE), []

    def off(person: User) -> None:
        try:
            state_digest = roles.compute_state_digest(person)
            ready.wait()
            roles.set_active(person, False, seen_digest=state_digest, editor=person)
        except roles.LastAdmin:
            refusal.append(person)
        finally:
            connection.close()

    threads = [threading.Thread(target=off, args=[person]) for person in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(refusal) == 1 and list(roles.list_admins()) == refusal
