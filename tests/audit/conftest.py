"""An audit trail of five rows, and counters that have seen nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.audit_trail import write_five_acts


@pytest.fixture
def five() -> None:
    write_five_acts()


@pytest.fixture
def signed_in(client: Client, a_person: Any) -> Client:
    client.force_login(a_person("admin"))
    return client
