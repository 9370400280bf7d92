"""A result that cannot be used: the tool ran, and that is what its card says."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import secrets
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from tests.support.tables import loop_over
from toolcards.client import BadOutput, Toolcards, gated, hooks
from toolcards.client.plain import Tools
from toolcards.client.values.jsonable import LONGEST
from toolcards.client.values.outputs import find_output_trouble

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CODE = ("bad_output", "output", "tool", False)


class Handle:
    """Nothing that anybody could read."""


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@dataclasses.dataclass
class Holder:
    inner: Any


class Colour(enum.Enum):
    RED = "red"


def itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


async def unawaited() -> None:
    return None


@loop_over("value", [
    None, True, 1, 1.5, float("nan"), "", "text", b"bytes", [], {}, {"a": [1, {"b": None}]}, (1, 2), {1, 2},
    Path("/tmp"), Decimal("1.5"), datetime.date(2026, 1, 2), Colour.RED, Holder(Holder(1)), ValueError("no"),
    [same := [1], same, same],
])  # fmt: skip
def test_what_has_words_can_be_used(value: Any) -> None:
    assert (
        find_output_trouble(value)
        == ""
        == find_output_trouble(value, None, longest=True)
        == find_output_trouble(value, {})
    )


@pytest.mark.parametrize(("value", "text"), [
    (Handle(), "a Handle"), ([1, {"a": Handle()}], "a Handle"), (Holder(Handle()), "a Handle"), (Mute(), "a Mute"),
    ((each for each in "ab"), "a generator"), (itself(), "a list that contains itself"),
])  # fmt: skip
def test_what_has_none_cannot(value: Any, text: str) -> None:
    assert find_output_trouble(value) == f"The result cannot be represented as JSON: {text}."


def test_a_coroutine_that_was_not_awaited_is_no_result() -> None:
    forgotten = unawaited()
    assert "a coroutine" in find_output_trouble(forgotten)
    forgotten.close()


def test_a_schema_and_a_limit_are_kept_only_where_they_were_set() -> None:
    assert find_output_trouble({"n": "one"}, NUMBER).startswith("The result does not match its schema. /n: ")
    assert "the whole result" in find_output_trouble([], NUMBER) and find_output_trouble({"n": 1}, NUMBER) == ""
    long = "x" * (LONGEST + 1)
    assert (
        find_output_trouble(long) == ""
        and find_output_trouble(long, longest=True) == f"The result has {len(long)} characters; the limit is 400000."
    )


# ---------------------------------------------------------------- on the card


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


@pytest.fixture
def cards(server: Server) -> Toolcards:
    return Toolcards(server.base, server.key, timeout=PATIENCE)


@pytest.fixture
def plugin_events() -> Iterator[list[Any]]:
    class Ears:
        def error(self, call: Any) -> None:
            entries.append((call["error"]["code"], call["side_effects"]))

        def settled(self, call: Any) -> None:
            entries.append(call["outcome"])

    entries: list[Any] = []
    unplug = hooks.register(Ears())
    yield entries
    unplug()


def failure(server: Server, run: str) -> tuple[Any, ...]:
    """Why the run's one call failed."""
    (call,) = until(lambda: [each for each in gating.calls(server, run).values() if each["error"]])
    assert (call["state"], call["anomalies"]) == ("output-error", [])
    return tuple(call["error"][name] for name in ("code", "phase", "authority", "retryable"))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "text"), [
    (Handle(), "cannot be represented as JSON"), ("x" * (LONGEST + 1), "the limit is"),
    ({"n": "one"}, "does not match its schema"),
], ids=["wordless", "long", "unfit"])  # fmt: skip
@pytest.mark.parametrize("waiting", [True, False])
def test_a_loops_model_gets_the_error_and_not_the_result(
    server: Server, cards: Toolcards, plugin_events: list[Any], value: Any, text: str, waiting: bool
) -> None:
    run = f"run-{secrets.token_hex(4)}"
    tools = Tools({"read_it": lambda: value}, outputs={"read_it": NUMBER} if isinstance(value, dict) else None)
    with cards.run(run):
        answer = asyncio.run(tools.acall("read_it", {}, "c1")) if waiting else tools.call("read_it", {}, "c1")
    assert (answer.state, answer.value, answer.ok) == ("output-error", value, False)
    assert answer.text.startswith("bad_output: ") and text in answer.text
    assert failure(server, run) == CODE
    hooks.drain()
    assert plugin_events == [("bad_output", "confirmed"), "error"]


@pytest.mark.slow
def test_a_result_that_its_announced_schema_does_not_take(server: Server, cards: Toolcards) -> None:
    run = f"run-{secrets.token_hex(4)}"
    with cards.run(run, tools=[{"name": "count", "output_schema": NUMBER}]) as agent_run:
        call = agent_run.call("count", "c1")
        call.allowed_now({})
        assert "/n: " in call.output({"n": None})
    assert failure(server, run) == CODE


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False])
def test_a_gated_function_with_a_declared_result(
    server: Server, cards: Toolcards, plugin_events: list[Any], waits: bool
) -> None:
    run = f"run-{secrets.token_hex(4)}"

    def plain(n: Any) -> Any:
        return {"n": n}

    async def waiting(n: Any) -> Any:
        return {"n": n}

    with pytest.raises(BadOutput, match="does not match") as raised:
        if waits:
            asyncio.run(gated(cards, run=run, output_schema=NUMBER)(waiting)("one"))
        else:
            gated(cards, run=run, output_schema=NUMBER)(plain)("one")
    assert raised.value.output == {"n": "one"}
    assert failure(server, run) == CODE
    hooks.drain()
    assert plugin_events == [("bad_output", "confirmed"), "error"]


@pytest.mark.slow
def test_a_gated_function_may_return_whatever_its_caller_can_use(server: Server, cards: Toolcards) -> None:
    run, handle = f"run-{secrets.token_hex(4)}", Handle()
    assert gated(cards, run=run)(lambda: handle)() is handle
    until(lambda: [each["state"] for each in gating.calls(server, run).values()] == ["output-available"])
