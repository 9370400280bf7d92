"""An audit trail of five rows, and counters that have seen nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.audit_trail import committed, restarted
from toolcards.audit import anchor
from toolcards.audit.trail import Act, write_acts


@pytest.fixture
def five() -> None:
    """Five rows, and the anchor at the fifth; the process has started again since."""
    for number in range(5):
        write_acts(Act(f"act {number}"))
    committed()
    anchor.write()
    restarted()


@pytest.fixture
def signed_in(client: Client, a_person: Any) -> Client:
    client.force_login(a_person("admin"))
    return client
