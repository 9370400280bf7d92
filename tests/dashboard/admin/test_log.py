"""The log in the admin: read-only, with every character marked that cannot be seen."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.support.admin_pages import READ_ONLY, address
from toolcards.models import AgentKey, Approval, PolicyVersion, Run, Source
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", READ_ONLY)
def test_what_the_gate_wrote_is_only_read(admin: Client, a_call: Any, model: str) -> None:
    call = a_call("approval-requested", tool="Edit")
    pk = {"run": call.run_id, "toolcall": call.pk, "event": call.run.events.first().pk,
          "approval": Approval.objects.get().pk, "policyversion": PolicyVersion.objects.get().pk}[model]  # fmt: skip
    assert admin.get(address(model)).status_code == 200
    assert admin.get(address(model) + "?q=x").status_code == 200
    page = admin.get(address(model, "change", pk))
    assert page.status_code == 200 and b'name="_save"' not in page.content
    assert admin.post(address(model, "change", pk), {}).status_code == 403
    assert admin.get(address(model, "add")).status_code == 403
    assert admin.post(address(model, "delete", pk), {"post": "yes"}).status_code == 403


UNSEEN = "\u202e\u2800\u3164\x1b\u200b\u034f\ufe0f"


def _unseen_in(client: Client, url: str) -> set[str]:
    return set(UNSEEN) & set(client.get(url).content.decode())


def test_no_list_and_no_page_shows_a_character_that_cannot_be_seen_as_it_is(
    admin: Client, a_call: Any, key: AgentKey, a_person: Any, policy: Any
) -> None:
    policy({"default": "ask"})
    text = f"a{UNSEEN}b"
    call = a_call("approval-requested", tool=text, input={text: text}, call_id=text, run=text)
    with allow_log_writes():
        Run.objects.update(title=text, agent=text, reason=text)
        Approval.objects.update(reason=text, by_name=text)
    Source.objects.update(name=text)
    pks = {"run": call.run_id, "toolcall": call.pk, "event": call.run.events.first().pk,
           "approval": Approval.objects.get().pk, "agentkey": key.pk}  # fmt: skip
    for model, pk in pks.items():
        for url in (address(model), f"{address(model)}?q={text}", address(model, "change", pk)):
            page = re.sub(r"<input[^>]*>", "", admin.get(url).content.decode())  # what was searched for is in one
            assert not set(UNSEEN) & set(page), url
            assert model == "event" or "U+202E" in page, url
    person = a_person("viewer")
    User.objects.filter(pk=person.pk).update(username=text)
    admin.force_login(a_superuser())
    for url in (
        reverse("admin:auth_user_changelist"), reverse("admin:auth_user_delete", args=[person.pk]),
        address("source", "delete", Source.objects.get().pk), address("source", "history", Source.objects.get().pk),
    ):  # fmt: skip
        assert not _unseen_in(admin, url) and "U+202E" in admin.get(url).content.decode(), url


def test_a_field_keeps_what_it_holds_and_says_what_cannot_be_seen(admin: Client, source: Source) -> None:
    Source.objects.update(name=f"a{UNSEEN}b")
    page = admin.get(address("source", "change", source.pk)).content.decode()
    (field,) = re.findall(r'<input type="text" name="name"[^>]*>[^\n]*', page)
    assert f"a{UNSEEN}b" in field and "contains U+001B, U+034F, U+200B, U+202E, U+2800, U+3164, U+FE0F" in field


def a_superuser() -> User:
    return User.objects.create_superuser("root", password="a password for tests")


@pytest.mark.parametrize("model", READ_ONLY)
def test_lists_do_not_ask_more_for_more_rows(
    admin: Client, a_call: Any, model: str, django_assert_max_num_queries: Any
) -> None:
    for number in range(8):
        a_call("approval-requested", tool="Edit", call_id=f"call-{number}")
    with django_assert_max_num_queries(14):
        admin.get(address(model))
