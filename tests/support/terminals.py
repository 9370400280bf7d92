"""What the server says of an approval that a terminal answers."""

from __future__ import annotations

from typing import Any

from tests.support.server import Server


def get_state(server: Server, approval: str) -> dict[str, Any]:
    answer: dict[str, Any] = server.request("GET", f"/api/v1/approvals/{approval}")[1]
    return answer
