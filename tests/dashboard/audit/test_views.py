"""The audit trail as a page: who may read it, what it finds, and calls that are shown without masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.support.audit_trail import acts, read_last
from toolcards.audit.trail import Act, write_acts
from toolcards.models import PersonalToken

pytestmark = pytest.mark.django_db
SECRET = "Zx9vK3qLm7pR"


@pytest.fixture
def signed_in(client: Client, a_person: Any) -> Callable[[str], Client]:
    def as_(role: str) -> Client:
        client.force_login(a_person(role))
        return client

    return as_


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_only_admins_read_the_trail_and_reveal(signed_in: Any, a_call: Any, role: str) -> None:
    call = a_call("input-available")
    client = signed_in(role)
    assert client.get("/settings/audit/").status_code == 403
    assert client.get("/settings/audit/export/").status_code == 403
    assert client.post("/settings/audit/verify/").status_code == 403
    assert client.post(f"/calls/{call.public_id}/reveal").status_code == 403
    assert "reveal" not in acts()


def test_the_page_finds_acts_by_person_and_call(signed_in: Any, a_call: Any) -> None:
    call = a_call("approval-responded")
    admin = signed_in("admin")
    page = admin.get("/settings/audit/", {"person": "ann", "act": "vote", "call": call.public_id}).content.decode()
    assert page.count("data-seq=") == 1 and 'data-act="vote"' in page
    assert "ann answered “Run ls”: approve" in page
    assert admin.get("/settings/audit/", {"person": "nobody"}).content.decode().count("data-seq=") == 0
    assert admin.get("/settings/audit/", {"since": "2100-01-01T00:00"}).content.decode().count("data-seq=") == 0
    assert 'data-verified="yes"' in admin.post("/settings/audit/verify/").content.decode()


def test_the_page_finds_acts_by_what_their_details_say(signed_in: Any) -> None:
    write_acts(
        Act("person.changed", detail={"person": "zoë", "groups": {"was": [], "is": ["sre", "ops"]}}), Act("other")
    )
    admin = signed_in("admin")
    page = admin.get("/settings/audit/", {"act": "person.", "about": "zoë"}).content.decode()
    assert page.count("data-seq=") == 1 and "— → sre, ops" in page
    for about in ("%", "zo_", "nobody", "\\"):
        assert admin.get("/settings/audit/", {"about": about}).content.decode().count("data-seq=") == 0, about


def test_the_page_of_a_call_leads_to_its_masked_values_for_who_may_see_them(signed_in: Any, a_call: Any) -> None:
    call = a_call("input-available", input={"command": f"PASSWORD={SECRET} ls"})
    form = f'action="/calls/{call.public_id}/reveal"'
    pages = {role: signed_in(role).get(f"/calls/{call.public_id}/").content.decode() for role in ("admin", "approver")}
    assert form in pages["admin"] and form not in pages["approver"] and SECRET not in "".join(pages.values())


def test_revealing_shows_the_original_and_is_recorded(signed_in: Any, a_call: Any) -> None:
    call = a_call("input-available", input={"command": f"PASSWORD={SECRET} ls"})
    admin = signed_in("admin")
    answer = admin.post(f"/calls/{call.public_id}/reveal")
    assert SECRET in answer.content.decode() and answer["Cache-Control"] == "no-store, private"
    assert (read_last("reveal").actor, read_last("reveal").call) == ("a-admin", call.public_id)
    assert admin.get(f"/calls/{call.public_id}/reveal").status_code == 405
    assert admin.post("/calls/1-99/reveal").status_code == 404
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = admin.cookies
    assert careful.post(f"/calls/{call.public_id}/reveal").status_code == 403


@pytest.fixture
def ask(a_person: Any, client: Client) -> Any:
    secret = PersonalToken.objects.issue(a_person("admin", "root"), "siem", ["audit"], 1)[1]

    def get(query: str = "") -> Any:
        return client.get(f"/api/v1/audit{query}", headers={"Authorization": f"Bearer {secret}"})

    return get


def test_rows_come_newest_first_in_pages(ask: Any) -> None:
    write_acts(*(Act("test", detail={"number": number}) for number in range(5)))
    numbers, cursor = [], ""
    while True:
        page = ask(f"?act=test&limit=2{cursor}").json()
        numbers += [row["detail"]["number"] for row in page["rows"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert numbers == [4, 3, 2, 1, 0]
    assert {"seq", "act", "actor", "hash", "prev"} <= set(page["rows"][0])


@pytest.mark.parametrize(("query", "code"), [("?limit=x", "bad_limit"), ("?cursor=x", "bad_cursor")])
def test_a_query_that_cannot_be_read_is_refused(ask: Any, query: str, code: str) -> None:
    answer = ask(query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_an_approver_does_not_read_the_trail(a_person: Any, client: Client) -> None:
    secret = PersonalToken.objects.issue(a_person("approver", "bea"), "x", ["audit", "read", "vote"], 1)[1]
    answer = client.get("/api/v1/audit", headers={"Authorization": f"Bearer {secret}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
