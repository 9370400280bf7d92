"""The real OpenAI Agents SDK behind `toolcards.client.openai_agents`."""

from __future__ import annotations

import pytest

from tests.clients.framework_scenarios import MARKS, FrameworkScenarios, Program, await_run_end, status
from tests.support import gating
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

    def test_an_agent_as_a_tool_waits_while_its_own_call_is_asked_about_once(
        self, server: Server, agent: Program
    ) -> None:
        run = agent.begin("team")
        assert gating.waiting(server, run)["call_id"] == "call_i"
        assert gating.calls(server, run)["call_w"]["state"] == "input-available"
        gating.vote(server, run, "approve")
        result = agent.end()
        cards = await_run_end(server, run)
        assert set(cards) == {"call_w", "call_i"} and result["ran"] == [["drop_table", "ask_users"]], (cards, result)
        assert all(card["state"] == "output-available" and not card["anomalies"] for card in cards.values()), cards
        assert cards["call_w"]["output"] == "Done.", cards
