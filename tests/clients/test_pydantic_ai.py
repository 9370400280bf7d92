"""The real Pydantic AI behind `toolcards.client.pydantic_ai`."""

from __future__ import annotations

from tests.clients.framework_scenarios import MARKS, FrameworkScenarios

pytestmark = MARKS


class TestPydanticAi(FrameworkScenarios):
    """The real Pydantic AI behind `toolcards.client.pydantic_ai`."""

    framework = "pydantic_ai"
