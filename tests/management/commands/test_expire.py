"""One sweep from the command line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from toolcards.models import Approval
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_overdue_ends_and_is_counted(run: Callable[..., str], a_call: Any) -> None:
    a_call("approval-requested")
    assert run("expire") == "Expired or ended: 0.\n"
    with allow_log_writes():
        Approval.objects.update(expires_at=time.time() - 1)
    assert run("expire") == "Expired or ended: 1.\n" and Approval.objects.get().state == "expired"
    assert run("expire") == "Expired or ended: 0.\n"
