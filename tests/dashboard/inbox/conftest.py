"""An approver, and calls that wait."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from toolcards.models import ToolCall


@pytest.fixture
def ann(an_approver: Any, client: Client) -> Client:
    client.force_login(an_approver)
    return client


@pytest.fixture
def edits(a_call: Any) -> Any:
    """Give `edits(n)`: that many waiting calls that differ in their path alone."""

    def make(count: int, run: str = "run-1") -> list[ToolCall]:
        entries = [{"path": f"src/{number}.py", "text": "x"} for number in range(count)]
        return [
            a_call("approval-requested", tool="Edit", input=one, call_id=f"{run}-{n}", run=run)
            for n, one in enumerate(entries)
        ]

    return make
