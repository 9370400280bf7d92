"""The real Pydantic AI behind `toolcards.client.pydantic_ai`."""

from __future__ import annotations

import pytest

from tests.clients.framework_scenarios import MARKS, FrameworkScenarios, Program, await_run_end
from tests.support import gating
from tests.support.server import Server

pytestmark = MARKS


class TestPydanticAi(FrameworkScenarios):
    """The real Pydantic AI behind `toolcards.client.pydantic_ai`."""

    framework = "pydantic_ai"

    @pytest.mark.parametrize("mode", ["gate", "watch"])
    def test_a_deferred_call_waits_for_the_app(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("deferred", mode)
        if mode == "gate":
            gating.vote(server, run, "approve")
        agent.end()
        cards = await_run_end(server, run)
        state = "approval-responded" if mode == "gate" else "input-available"
        ends = {name: (card["state"], card["awaiting_client"], card["cause"]) for name, card in cards.items()}
        assert ends == {"call_da": (state, True, None), "call_db": ("input-available", True, None)}

    @pytest.mark.parametrize("mode", ["gate", "watch"])
    def test_the_app_brings_the_result_of_a_deferred_call(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("deferred-brought", mode)
        if mode == "gate":
            gating.vote(server, run, "approve")
        agent.end()
        cards = await_run_end(server, run)
        assert cards.keys() == {"call_da", "call_db"}
        assert (cards["call_da"]["state"], cards["call_da"]["output"]) == ("output-available", "done later")
        error = cards["call_db"]["error"]
        assert (error["message"], error["code"], error["retryable"]) == ("no such file", "tool_reported", True)

    @pytest.mark.parametrize("mode", ["gate", "watch"])
    def test_a_retry_and_the_content_of_a_result(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("shapes", mode)
        agent.end()
        cards = await_run_end(server, run)
        error = cards["call_pa"]["error"]
        assert (error["message"], error["code"], error["retryable"]) == ("not there", "tool_reported", True)
        value, text, picture = cards["call_sa"]["output"]
        assert (value, text, picture["type"], picture["media_type"]) == ("took it", "here", "image", "image/png")
