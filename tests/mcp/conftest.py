"""Sessions whose ends wait for their reports as long as tests do."""

from __future__ import annotations

import pytest

from tests.support.server import PATIENCE
from toolcards.mcp import elicitation, gate_link


@pytest.fixture(autouse=True)
def _patient_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gate_link, elicitation):
        monkeypatch.setattr(module, "LINGER", PATIENCE)
