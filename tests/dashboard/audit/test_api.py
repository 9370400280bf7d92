"""The audit trail as JSON: its pages, its filters, and who may read it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from toolcards.audit.trail import Act, write_acts
from toolcards.models import PersonalToken

pytestmark = pytest.mark.django_db


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
