"""What is recorded of a name that was typed."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.accounts.guessing.throttle import PAIR
from tests.support.accounts import read_details, sign_in
from toolcards.audit.rows import AuditRow

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("typed_name", ["hunter2-my-real-password", "bea@example.com", "b\u00e9a", "BEA"])
def test_what_was_typed_as_a_name_is_kept_only_if_it_is_one(
    bea: User, typed_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(PAIR.size + 2):
        sign_in(Client(), typed_name, "wrong")
    rows = str(list(AuditRow.objects.values_list("detail", "actor"))) + caplog.text
    assert typed_name not in rows and read_details("signin.refused")[0] == {"from": "127.0.0.1", "way": "password"}


def test_a_name_that_exists_is_kept_as_it_is_written(bea: User) -> None:
    sign_in(Client(), "\uff42ea", "wrong")
    assert read_details("signin.refused") == [{"typed": "bea", "from": "127.0.0.1", "way": "password"}]
