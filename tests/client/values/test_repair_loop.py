"""Broken calls on the agent's side: repaired if the repair is unambiguous, requested again, or ended immediately."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import gating
from tests.support.server import Server
from toolcards.client import Toolcards, hooks
from toolcards.client.common import input_repair
from toolcards.client.decisions.answers import Decision
from toolcards.client.framework_support.call_registry import find_registry
from toolcards.client.plain import Tools
from toolcards.client.values import repair_loop

NOBODY = "http://127.0.0.1:9"
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "input_schema": {
        "type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "place": {"type": "object"}},
    },
}  # fmt: skip
MAIL: dict[str, Any] = {"name": "send_mail", "input_schema": {"type": "object"}}
OFFERS = input_repair.parse_offers([WEATHER, MAIL])
CITY, DAYS = {"city": "Rome"}, {"city": "Rome", "days": "three"}


# ---------------------------------------------------------------- one way only
@pytest.mark.parametrize(("tool", "args", "expected_args", "code"), [
    ("get_weather", CITY, None, ""),
    ("Get-Weather", {"City": "Rome", "days": "3"}, ("get_weather", CITY | {"days": 3}), ""),
    ("get_weather", CITY | {"zzz": 1}, None, "invalid_input"),
    ("get_weather", '{"city": "Rome"}', ("get_weather", CITY), ""),
    ("get_weather", {}, None, "invalid_input"),
    ("get_wether", CITY, None, "no_such_tool"),
    ("gеt_weather", CITY, None, "no_such_tool"),  # a Cyrillic letter
    ("SEND-mail", {}, ("send_mail", {}), ""),
])  # fmt: skip
def test_a_call_is_repaired_only_if_the_repair_is_unambiguous(
    tool: str, args: Any, expected_args: Any, code: str
) -> None:
    match, trouble = repair_loop.find_usable_call(tool, args, OFFERS, "c")
    assert (match and (match.tool, match.input)) == expected_args and (trouble.code if trouble else "") == code


# ---------------------------------------------------------------- requested again
def choose_again(answer: Any, args: Any = None) -> Any:
    def reask(decision: Decision) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    match, _ = repair_loop.find_usable_call("get_weather", DAYS if args is None else args, OFFERS, "c", reask)
    return match and (match.tool, match.input)


READER = {**WEATHER, "name": "read_file"}
READERS = input_repair.parse_offers(
    [READER, WEATHER, MAIL, {"name": "Read", "input_schema": {"required": ["path"]}}, {"name": "list_users"}]
)


@pytest.mark.parametrize(("answer", "chosen"), [
    ("read_file", "read_file"), ("get_weather", ""), ("Read", ""), ("send_mail", ""), ("nope", ""), ("Read-File", ""), (None, ""),
    ({"tool": "read_file"}, ""), (KeyError(), ""), (SystemExit(), ""),
])  # fmt: skip
def test_a_tool_is_chosen_again_only_among_those_that_read_and_take_the_arguments(answer: Any, chosen: str) -> None:
    offers: list[Any] = []

    def reask(decision: Decision) -> Any:
        offers.append(decision.raw["tools"])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    decision = Decision("deny", call_id="c", code="no_such_tool")
    assert repair_loop.choose_other_tool(reask, decision, CITY, READERS) == chosen
    assert offers == [["read_file", "Read"]]
    assert (
        repair_loop.choose_other_tool(reask, decision, CITY, input_repair.parse_offers([MAIL])) == ""
        and len(offers) == 1
    )


def test_only_what_failed_may_come_out_changed() -> None:
    assert choose_again({"city": "Rome", "days": 3}) == ("get_weather", {"city": "Rome", "days": 3})
    for answer in (
        {"city": "Oslo", "days": 3}, {"city": "Rome"} | {"days": 3, "place": {}}, {"city": "Rome", "days": "3"}, DAYS, None,
        "3", [], object(), float("nan"), KeyError(), SystemExit(), KeyboardInterrupt(),
    ):  # fmt: skip
        assert choose_again(answer) is None, answer


def test_of_a_missing_field_only_that_field_may_come() -> None:
    assert choose_again(CITY | {"days": 3}, {"days": 3}) == ("get_weather", CITY | {"days": 3})
    assert choose_again(CITY | {"days": 4}, {"days": 3}) is None


def test_an_unknown_name_is_never_asked_about() -> None:
    entries: list[Any] = []
    assert repair_loop.find_usable_call("nope", {}, OFFERS, "c", entries.append)[1] and not entries


def test_who_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_loop, "REASK_SECONDS", 0.05)
    late = threading.Event()

    def reask(decision: Decision) -> Any:
        late.wait(20)
        return {"city": "Rome", "days": 3}

    match, trouble = repair_loop.find_usable_call("get_weather", DAYS, OFFERS, "c", reask)
    late.set()
    assert match is None and trouble is not None and trouble.code == "invalid_input"


def test_the_cap_is_ten_seconds() -> None:
    assert repair_loop.REASK_SECONDS == 10.0


def test_an_unusable_call_ends_immediately_even_without_a_server() -> None:
    run = Toolcards(NOBODY, "key").run("r", tools=[WEATHER, MAIL])
    decision = asyncio.run(run.call("get_weather", "c").decision({}))
    assert (decision.effect, decision.code) == ("deny", "invalid_input") and "get_weather, send_mail" in decision.text
    assert decision.raw["places"][0]["missing"] == ("city",)


# ---------------------------------------------------------------- with a server
@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        policy = gating.policy("bash", "/command")
        policy["rules"].append({"id": "ask-secret", "effect": "ask", "match": {"tool": ["Read"]}})
        gating.activate(running, policy)
        yield running


@pytest.fixture
def cards(ruled: Server) -> Toolcards:
    return Toolcards(ruled.base, ruled.key)


@pytest.fixture
def run() -> str:
    return f"run-{secrets.token_hex(4)}"


def card(server: Server, run: str, call: str = "c") -> Any:
    return gating.calls(server, run)[call]


@pytest.mark.slow
async def test_a_repaired_call_shows_its_original_input(ruled: Server, cards: Toolcards, run: str) -> None:
    async with cards.run(run, tools=[WEATHER, MAIL]) as agent_run:
        call = agent_run.call("Get-Weather", "c")
        assert await call.allowed({"City": "Rome"}) == CITY and call.tool == "get_weather"
        call.output(21)
        broken = agent_run.call("get_weather", "d")
        assert (await broken.decision({"city": 3})).code == "invalid_input"
    fields = card(ruled, run)
    assert (fields["tool"]["name"], fields["input"], fields["original_input"]) == (
        "get_weather",
        CITY,
        {"City": "Rome"},
    )
    assert fields["state"] == "output-available" and not fields["anomalies"]
    fields = card(ruled, run, "d")
    assert (fields["state"], fields["error"]["code"], fields["input"]) == ("output-error", "invalid_input", {"city": 3})


@pytest.mark.slow
def test_tools_told_with_a_question_are_checked_by_the_server(ruled: Server, cards: Toolcards, run: str) -> None:
    decision = cards.ask(run, "c", "Get-Weather", {"City": "Rome"}, tools=[WEATHER, MAIL])
    assert decision.allowed and (decision.tool, decision.args) == ("get_weather", CITY)
    decisions: list[Decision] = []

    def reask(refusal: Decision) -> Any:
        decisions.append(refusal)
        return {"city": "Rome", "days": 3}

    decision = cards.ask(run, "d", "get_weather", DAYS, tools=[WEATHER, MAIL], reask=reask)
    assert decision.allowed and decision.args == {"city": "Rome", "days": 3} and len(decisions) == 1
    (place,) = decisions[0].raw["places"]
    assert (place["pointer"], place["keyword"], place["missing"]) == ("/days", "type", [])
    assert (
        cards.ask(run, "e", "get_weather", DAYS, reask=lambda refusal: {"city": "Oslo", "days": 3}).code
        == "invalid_input"
    )
    assert cards.ask(run, "f", "nope", {}, reask=reask).code == "no_such_tool" and len(decisions) == 1


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False])
def test_a_tool_that_was_chosen_again_runs_if_a_rule_lets_it_and_no_person_is_asked(
    ruled: Server, cards: Toolcards, run: str, waits: bool
) -> None:
    tools = [READER, MAIL, {"name": "Read"}]

    def ask(call: str, chosen: str) -> Decision:
        more: dict[str, Any] = {"tools": tools, "reask": lambda refusal: chosen}
        if waits:
            return asyncio.run(cards.aask(run, call, "weather_report", CITY, **more))
        return cards.ask(run, call, "weather_report", CITY, **more)

    decision = ask("a", "read_file")
    assert decision.allowed and (decision.tool, decision.args or CITY) == ("read_file", CITY)
    assert cards.result(run, "a", output=21)
    fields = card(ruled, run, "a")
    assert (fields["tool"]["name"], fields["state"], fields["anomalies"]) == ("read_file", "output-available", [])
    for call, chosen in (("b", "Read"), ("c", "send_mail"), ("d", "nope")):
        decision = ask(call, chosen)
        assert (decision.effect, decision.code) == ("deny", "no_such_tool") and "weather_report" in decision.text
    assert not [one for one in ruled.get("/api/v1/approvals?state=waiting")["approvals"] if one.get("run") == run]


# ---------------------------------------------------------------- plugins, in the modules for frameworks
class Ears:
    def __init__(self, no: BaseException | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.no = no

    def before(self, call: dict[str, Any]) -> Any:
        self.messages.append(call)
        if self.no is not None and call["input"] != CITY:
            raise self.no
        return None

    def after(self, call: dict[str, Any]) -> None:
        self.messages.append(call)

    error = settled = after

    def of(self, call: str) -> list[str]:
        hooks.drain()
        mine = [message for message in self.messages if message["call_id"] == call]
        return [
            f"{message['event'].rpartition('.')[2]}{message.get('outcome', '') and '=' + message['outcome']}"
            for message in mine
        ]


@pytest.fixture
def ears() -> Iterator[Ears]:
    value = Ears(hooks.Veto("Not there."))
    hooks.register(value)
    yield value
    hooks.drain()
    hooks.clear()


def get_weather(city: str, place: dict[str, Any] | None = None) -> str:
    if city == "Atlantis":
        raise LookupError("under water")
    return f"21 in {city}"


@pytest.mark.slow
@pytest.mark.parametrize("gate", [True, False])
def test_plugins_are_notified_of_calls_in_the_agents_own_loop(
    ruled: Server, cards: Toolcards, run: str, ears: Ears, gate: bool
) -> None:
    tools = Tools([get_weather])
    with cards.run(run, gate=gate):
        assert tools.call("Get-Weather", json.dumps(CITY), "a").value == "21 in Rome"
        assert tools.call("get_weather", {"city": "Oslo"}, "b").state == "output-denied"
        ears.no = None
        assert tools.call("get_weather", {"city": "Atlantis"}, "c").state == "output-error"
        assert tools.call("get_weather", {}, "d").state == "output-error"
    assert ears.of("a") == ["before", "after", "settled=ok"]
    assert ears.of("b") == ["before", "error", "settled=denied"]
    assert ears.of("c") == ["before", "error", "settled=error"]
    assert ears.of("d") == ["error", "settled=error"]
    outcomes = {
        name: (one["state"], (one["error"] or {}).get("code")) for name, one in gating.calls(ruled, run).items()
    }
    assert outcomes == {"a": ("output-available", None), "b": ("output-denied", None), "c": ("output-error", "tool_failed"),
                     "d": ("output-error", "invalid_input")}  # fmt: skip


@pytest.mark.slow
async def test_a_run_that_ends_settles_what_was_begun(cards: Toolcards, run: str, ears: Ears) -> None:
    async with cards.run(run) as agent_run:
        registry = find_registry(agent_run)
        assert registry is not None
        assert (await registry.enter("a", "get_weather", CITY).ask(CITY)).allowed
        ears.no = KeyError()
        oslo = {"city": "Oslo"}
        assert (await registry.enter("b", "get_weather", oslo).ask(oslo)).code == "plugin_crash"
    assert ears.of("a") == ["before", "settled=aborted"]
    assert ears.of("b") == ["before", "error", "settled=error"]
    assert len({message["id"] for message in ears.messages}) == len(ears.messages)
