"""The JavaScript clients against the table of bad answers: nothing runs on any; on an honest answer each runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bad_answers import BRIEF, BadAnswer, make_tamper, rows
from tests.support.fake_gate import Answer, Gate
from tests.support.javascript import CLIENTS, NODE, Node
from tests.support.server import until
from tests.support.silent_server import Hole
from tests.support.tables import loop_over

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="not here: Node.js")]
ARGS = {"command": "ls"}
# Each client against the whole table is a matter of `make test-clients`; `make test` has the two that differ most.
EACH = [each if each in ("runs", "opencode") else pytest.param(each, marks=pytest.mark.clients) for each in CLIENTS]
HASTE = 30  # speed-up of the clients' clocks, so that no row takes ten seconds


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def ran(
    node: Node, client: str, row: BadAnswer | None, stage: str, *, haste: float = 1, gives_up: bool = False
) -> list[Any]:
    """A run of its own each time: the modules remember ids. `gives_up`: the client waits no longer at this stage."""
    run = f"run-{uuid.uuid4().hex}"
    call = {"tool": "bash", "id": "c1", "args": ARGS}
    honest_or_bad = make_tamper(row, stage)

    def tamper(now: str, honest: Any) -> Answer | None:
        if gives_up and now == stage:
            node.give_up_sooner()
        return honest_or_bad(now, honest)

    with Gate({"bash": "ask" if stage == "poll" else "allow"}, tamper=tamper) as gate:
        result = node.play(client=client, url=gate.url, run=run, calls=[call], haste=haste)
        assert stage in gate.stages(), result  # else nothing bad was said
    assert len(result["ran"]) + len(result["said"]) == 1
    return list(result["ran"])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stage", ["decide", "poll"])
def test_a_correct_gate_is_trusted(node: Node, client: str, stage: str) -> None:
    assert ran(node, client, None, stage) == [["bash", ARGS]]


@pytest.mark.parametrize("client", CLIENTS)
@loop_over(("row", "stage"), rows("decide", "poll", "claim", table=BRIEF), ids=str)
def test_a_correct_gate_with_fewer_fields_is_trusted(node: Node, client: str, row: BadAnswer, stage: str) -> None:
    assert ran(node, client, row, stage) == [["bash", ARGS]]


@pytest.mark.thorough
@pytest.mark.parametrize("client", EACH)
@loop_over(("row", "stage"), rows("decide", "poll", "claim"), ids=str)
def test_nothing_runs_on_a_bad_answer(node: Node, client: str, row: BadAnswer, stage: str) -> None:
    assert ran(node, client, row, stage, haste=HASTE) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_server_nothing_runs(node: Node, client: str) -> None:
    result = node.play(
        client=client, url="http://127.0.0.1:9", run="r1", calls=[{"tool": "bash", "id": "c", "args": {}}]
    )
    assert result["ran"] == [] and "could not be reached" in result["said"][0]


@pytest.mark.parametrize("client", EACH)
@pytest.mark.parametrize(("row", "stage"), rows("decide", "poll", "claim", sooner=True), ids=str)
def test_nothing_runs_and_waiting_ends_on_an_answer_that_does_not_end(
    node: Node, client: str, row: BadAnswer, stage: str
) -> None:
    assert ran(node, client, row, stage, haste=HASTE, gives_up=True) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_never_answers_is_not_waited_for_for_ever(node: Node, client: str) -> None:
    call = {"tool": "bash", "id": "c", "args": {}}
    with Hole(on_connection=node.give_up_sooner) as hole:
        result = node.play(client=client, url=hole.url, run=uuid.uuid4().hex, calls=[call], haste=HASTE)
        until(lambda: hole.swallowed)
    assert result["ran"] == []
