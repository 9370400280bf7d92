"""The real OpenAI Agents SDK behind `toolcards.client.openai_agents`."""

from __future__ import annotations

import pytest

from tests.clients.framework_scenarios import MARKS, FrameworkScenarios, Program, await_run_end, status
from tests.support.server import Server

pytestmark = MARKS


class TestOpenAiAgents(FrameworkScenarios):
    """The real OpenAI Agents SDK behind `toolcards.client.openai_agents`."""

    framework = "openai_agents"

    @pytest.mark.parametrize("mode", ["gate", "observe"])
    def test_a_result_that_is_cancelled_leaves_nothing_open(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("cancel", mode)
        assert agent.end()["error"] == ""
        card = await_run_end(server, run)["call_r"]
        assert (card["state"], card["cause"], status(server, run)) == ("output-error", "aborted", "aborted"), card
