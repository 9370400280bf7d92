"""The real LangChain behind `toolcards.client.langchain`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.framework_scenarios import MARKS, FrameworkScenarios, Program, await_run_end
from tests.support import gating
from tests.support.server import Server, until

pytestmark = MARKS


class TestLangChain(FrameworkScenarios):
    """The real LangChain behind `toolcards.client.langchain`."""

    framework = "langchain"

    def test_it_works_without_an_event_loop(self, server: Server, agent: Program) -> None:
        run = agent.begin("ask", "gate-sync")
        gating.vote(server, run, "edit", edited={"path": "/trash/a"})
        assert agent.end()["ran"] == [["delete_file", "/trash/a"]]
        assert await_run_end(server, run)["call_h"]["state"] == "output-available"
        run = agent.begin("deny", "gate-sync")
        result = agent.end()
        assert result["ran"] == [] and "Not in this folder." in result["saw"]["call_g"][1], result
        run = agent.begin("own", "gate-sync")
        gating.vote(server, run, "approve")
        assert agent.end()["ran"] == [["drop_table", "ask_users"]]
        run = agent.begin("parallel", "gate-sync")
        agent.end()
        assert await_run_end(server, run)["call_m"]["state"] == "output-denied"

    @pytest.mark.parametrize("mode", ["gate", "observe"])
    def test_a_command_is_shown_as_the_message_that_the_model_reads(
        self, server: Server, agent: Program, mode: str
    ) -> None:
        run = agent.begin("commands", mode)
        agent.end()
        cards = await_run_end(server, run)
        assert (cards["call_ca"]["state"], cards["call_ca"]["output"]) == ("output-available", "Handed over: success")
        assert (cards["call_cb"]["state"], cards["call_cb"]["error"]["message"]) == (
            "output-error",
            "Handed over: error",
        )

    @pytest.mark.parametrize("mode", ["alone", "alone-sync"])
    def test_a_graph_without_a_with_block_opens_its_run_and_ends_it(
        self, server: Server, agent: Program, mode: str
    ) -> None:
        """As a platform runs a graph that it imports: the run begins with the first call, and ends once none comes."""

        def runs() -> list[Any]:
            response: list[Any] = server.get(f"/api/v1/runs?agent={name}")["runs"]
            return response

        name = agent.begin("success", mode)
        report = agent.end()
        assert report["ran"] == [["get_weather", "Paris"]] and not report["error"], report
        until(lambda: [run["status"] for run in runs()] == ["finished"])
        (only_run,) = runs()
        assert only_run["run"].startswith(f"{name}-thread-7-")
        assert gating.calls(server, only_run["run"])["call_a"]["state"] == "output-available"
        agent.begin("deny", mode, agent=name)
        report = agent.end()
        assert report["ran"] == [] and "Not in this folder." in report["saw"]["call_g"][1], report
        until(lambda: [run["status"] for run in runs()] == ["finished", "finished"])
        agent.begin("ask", f"{mode}-closed", agent=name)
        result = until(lambda: next((run for run in runs() if run["status"] == "waiting"), None))
        gating.vote(server, result["run"], "approve")
        assert agent.end()["ran"] == [["delete_file", "/ask/a"]]
        until(lambda: [run["status"] for run in runs()] == ["finished"] * 3)
