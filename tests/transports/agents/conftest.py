"""An AG-UI agent behind the proxy, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.ag_ui_agent import FakeAgent


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeAgent]:
    agent = FakeAgent()
    yield agent
    agent.close()
