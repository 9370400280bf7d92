"""Roles: one admin always stays, and people of tests are as those that are created."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from dashboard.accounts import roles
from tests.support.accounts import PASSWORD, read_details, write_person
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


@pytest.mark.parametrize("role", ["", *roles.ROLES])
def test_a_person_of_a_test_is_as_one_who_was_created(role: str) -> None:
    people = [roles.create_person("created", role=role, password=PASSWORD), write_person("written", role)]
    flags = ("is_active", "is_staff", "is_superuser", "first_name", "last_name", "email", "last_login")
    states = [[getattr(person, flag) for flag in flags] + list(person.groups.all()) for person in people]
    assert states[0] == states[1] and all(person.check_password(PASSWORD) for person in people)
    details = [{**detail, "person": ""} for detail in read_details("person.created")]
    assert details == details[:1] * 2
