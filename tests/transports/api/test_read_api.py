"""Reading: pages, cursors, filters, and who may look."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from channels.db import database_sync_to_async as in_thread
from django.conf import settings
from django.test import Client
from django.test.utils import CaptureQueriesContext

from toolcards.core.calls import facts as f
from toolcards.models import AgentKey, ToolCall
from toolcards.transports.api import read_api
from toolcards.transports.api.auth import Caller

pytestmark = pytest.mark.django_db(transaction=True)


async def pages(call: Any, path: str, name: str) -> list[list[Any]]:
    value, cursor = [], ""
    while True:
        status, body, _ = await call("GET", f"{path}{'&' if '?' in path else '?'}cursor={cursor}")
        assert status == 200
        value.append(body[name])
        if not body["next"]:
            return value
        cursor = body["next"]


@pytest.fixture
def cookie(a_person: Any) -> Any:
    def sign_in(role: str = "") -> str:
        person = a_person(role or "viewer", "somebody")
        if not role:
            person.groups.clear()
        client = Client()
        client.force_login(person)
        return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"

    return sign_in


@pytest.fixture
def twin(a_run: Any) -> Any:
    """Give `await twin(name)`: a run of the source `twin`; returns a key of that source."""

    def make(name: str) -> str:
        key, secret = AgentKey.objects.issue("twin")
        a_run(name, source=key.source)
        return secret

    return in_thread(make)


async def test_runs_come_newest_first_in_pages(call: Any, a_run: Any) -> None:
    for n in range(5):
        await in_thread(a_run)(f"r{n}")
    result = await pages(call, "/api/v1/runs?limit=2", "runs")
    assert [[run["run"] for run in page] for page in result] == [["r4", "r3"], ["r2", "r1"], ["r0"]]


async def test_runs_are_found_by_status_and_agent(call: Any, a_run: Any) -> None:
    await in_thread(a_run)("done", f.RunEnded())
    await in_thread(a_run)("open")
    names = [[run["run"] for run in (await call("GET", f"/api/v1/runs?{query}"))[1]["runs"]] for query in
             ("status=finished", "status=running", "agent=bot", "agent=nobody")]  # fmt: skip
    assert names == [["done"], ["open"], ["open", "done"], []]


async def test_calls_come_in_order_of_first_sight(call: Any, a_run: Any) -> None:
    await in_thread(a_run)("r", *(f.InputReady(f"c{n}", "bash", {}, True) for n in range(3)), f.OutputReady("c1", 1))
    result = await pages(call, "/api/v1/runs/r/calls?limit=2", "calls")
    assert [[one["call_id"] for one in page] for page in result] == [["c0", "c1"], ["c2"]]
    _, listing, _ = await call("GET", "/api/v1/runs/r/calls?state=output-available")
    assert [one["call_id"] for one in listing["calls"]] == ["c1"]


async def test_a_streaming_text_is_whole_though_its_row_lags(call: Any, a_run: Any) -> None:
    pieces = [f.InputDelta("c", "x" * 1000) for _ in range(10)]
    await in_thread(a_run)("r", f.InputStarted("c", "bash"), *pieces)
    from tests.support.gate_commands import RecordFacts
    from toolcards.gate.writer import group_commit

    call_row = await ToolCall.objects.select_related("run__source").aget()
    await in_thread(group_commit.execute)(RecordFacts(call_row.run.source, "r", [f.InputDelta("c", "y")]))
    assert (await ToolCall.objects.aget()).text_seq < (await ToolCall.objects.aget()).seq
    _, listing, _ = await call("GET", "/api/v1/runs/r/calls")
    assert listing["calls"][0]["input_text"] == "x" * 10_000 + "y"


def test_a_page_costs_the_same_number_of_queries_whatever_is_on_it(a_run: Any, source: Any) -> None:
    from django.db import connection

    def cost(name: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            read_api.list_calls(Caller(source), name, {"limit": "200"})
            read_api.list_runs(Caller(source), {})
        return len(queries)

    few = [f.InputStarted("c", "bash"), f.InputDelta("c", "{")]
    many = [fact for n in range(60) for fact in (f.InputStarted(f"c{n}", "bash"), f.InputDelta(f"c{n}", "{"))]
    a_run("few", *few)
    a_run("many", *many)
    assert cost("few") == cost("many")


@pytest.mark.parametrize("seed", range(6))
async def test_pages_of_large_calls_are_shorter_and_leave_none_out(
    seed: int, call: Any, a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_api, "MAX_PAGE", 20_000)
    chance = random.Random(seed)
    sizes = [chance.choice([0, 100, 3_000, 12_000, 50_000]) for _ in range(chance.choice([0, 1, 25]))]
    facts = [
        (f.InputReady(f"c{n}", "bash", {}, True), f.OutputReady(f"c{n}", "x" * size)) for n, size in enumerate(sizes)
    ]
    await in_thread(a_run)("r", *(fact for pair in facts for fact in pair))
    limit, pages, cursor = chance.choice([1, 4, 200]), [], ""
    while True:
        _, listing, _ = await call("GET", f"/api/v1/runs/r/calls?limit={limit}{cursor}")
        pages.append([len(entry["output"]) for entry in listing["calls"]])
        if listing["next"] is None:
            break
        cursor = f"&cursor={listing['next']}"
    assert [size for page in pages for size in page] == sizes
    assert all(1 <= len(page) <= limit and (len(page) == 1 or sum(page) <= 20_000) for page in pages if sizes)
    assert limit != 200 or len(pages) <= 1 + sum(sizes) // 5_000


@pytest.mark.parametrize("limit", ["100000", "0", "-5"])
async def test_greedy_limits_are_clamped(call: Any, a_run: Any, limit: str) -> None:
    await in_thread(a_run)("r", *(f.InputReady(f"c{n}", "bash", {}, True) for n in range(210)))
    _, listing, _ = await call("GET", f"/api/v1/runs/r/calls?limit={limit}")
    assert len(listing["calls"]) == (200 if limit == "100000" else 1)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs?limit=many", "/api/v1/runs?cursor=%27", "/api/v1/runs?cursor=-1", "/api/v1/runs?status=lost",
        "/api/v1/runs/r/calls?state=happy", "/api/v1/runs/r/calls?cursor=1.2", "/api/v1/runs/r/events?cursor=1",
        "/api/v1/approvals?state=maybe", "/api/v1/approvals?cursor=none", "/api/v1/runs?cursor=99999999999999999999999",
    ],
)  # fmt: skip
async def test_what_we_never_gave_out_is_400(call: Any, a_run: Any, path: str) -> None:
    await in_thread(a_run)("r")
    status, body, _ = await call("GET", path)
    assert status == 400
    assert body["error"]["code"].startswith("bad_")


@pytest.mark.parametrize("name", ["a/b", "a b", "ü%2F", "..", "r?x#y", "a/calls"])
async def test_a_run_id_may_hold_any_printable_character(call: Any, a_run: Any, name: str, server: Any) -> None:
    body = {"type": "run.started"}
    path = f"/api/v1/ingest?protocol=native&run={quote(name, safe='')}"
    assert server.request("POST", path, body)[0] == 200
    assert server.get(f"/api/v1/runs/{quote(name, safe='')}")["run"] == name
    assert server.get(f"/api/v1/runs/{quote(name, safe='')}/calls")["calls"] == []


async def test_signed_in_people_with_a_role_may_read(call: Any, a_run: Any, cookie: Any) -> None:
    await in_thread(a_run)("r")
    session = await in_thread(cookie)("viewer")
    status, body, _ = await call("GET", "/api/v1/runs", key=None, cookie=session)
    assert (status, len(body["runs"])) == (200, 1)


async def test_people_without_a_role_may_not(call: Any, a_run: Any, cookie: Any) -> None:
    session = await in_thread(cookie)()
    assert (await call("GET", "/api/v1/runs", key=None, cookie=session))[0] == 403


@pytest.mark.parametrize(
    "payload", [{}, {"cookie": f"{settings.SESSION_COOKIE_NAME}=made-up"}, {"authorization": "Basic eDp5"}]
)
async def test_strangers_may_not(call: Any, a_run: Any, payload: dict[str, str]) -> None:
    status, body, headers = await call("GET", "/api/v1/runs", key=None, **payload)
    assert (status, body["error"]["code"]) == (401, "unauthorized")
    assert headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("scopes", "run_count"),
    [(("read",), 0), (("read", "ingest"), 0), (("ingest", "decide", "result", "read"), 0), (("read:all",), 1),
     (("ingest", "read:all"), 1)],
)  # fmt: skip
async def test_only_a_key_with_the_scope_for_it_sees_other_sources(
    call: Any, a_call: Any, scopes: tuple[str, ...], run_count: int
) -> None:
    await in_thread(a_call)("approval-requested", run="r")
    _, other = await in_thread(AgentKey.objects.issue)("other", scopes)
    for path in ("/api/v1/runs/r", "/api/v1/runs/r/calls", "/api/v1/runs/r/events"):
        for query in ("", "?source=an+agent"):
            assert (await call("GET", path + query, key=other))[0] == (200 if run_count else 404)
    assert len((await call("GET", "/api/v1/runs", key=other))[1]["runs"]) == run_count
    assert len((await call("GET", "/api/v1/approvals", key=other))[1]["approvals"]) == run_count


async def test_a_key_reads_its_own_run_if_another_source_uses_the_name(call: Any, a_run: Any, twin: Any) -> None:
    await in_thread(a_run)("r")
    own, everything = await twin("r"), (await in_thread(AgentKey.objects.issue)("twin", ("read:all",)))[1]
    for path in ("/api/v1/runs/r", "/api/v1/runs/r?source=twin"):
        for key in (own, everything):
            assert (await call("GET", path, key=key))[1]["source"] == "twin"
    assert (await call("GET", "/api/v1/runs/r?source=an+agent", key=own))[0] == 404
    assert (await call("GET", "/api/v1/runs/r?source=an+agent", key=everything))[1]["source"] == "an agent"
    assert (await call("GET", "/api/v1/runs/r"))[1]["source"] == "an agent"


async def test_who_reads_every_source_chooses_where_several_use_the_name(
    call: Any, a_run: Any, cookie: Any, twin: Any
) -> None:
    await in_thread(a_run)("r")
    await twin("r")
    session = await in_thread(cookie)("viewer")
    _, everything = await in_thread(AgentKey.objects.issue)("watcher", ("read:all",))
    for who in ({"key": None, "cookie": session}, {"key": everything}):
        for path in ("/api/v1/runs/r", "/api/v1/runs/r/calls", "/api/v1/runs/r/events"):
            status, body, _ = await call("GET", path, **who)
            assert (status, body["error"]["code"]) == (409, "ambiguous_run")
            assert body["error"]["detail"] == {"sources": ["an agent", "twin"]}
            assert (await call("GET", f"{path}?source=none", **who))[0] == 404
        for source in ("an agent", "twin"):
            run = (await call("GET", f"/api/v1/runs/r?source={quote(source)}", **who))[1]
            assert run["source"] == source
            assert run["url"] == f"/runs/r/?source={quote_plus(source)}"
        only = (await call("GET", "/api/v1/runs?source=twin", **who))[1]["runs"]
        assert [run["source"] for run in only] == ["twin"]


async def test_people_do_not_decide_with_their_session(call: Any, cookie: Any) -> None:
    session = await in_thread(cookie)("admin")
    question = {"run": "r", "call_id": "c", "tool": "bash", "args": {}}
    assert (await call("POST", "/api/v1/calls/decide", question, key=None, cookie=session))[0] == 401


async def test_waiting_approvals_are_listed_with_their_calls(call: Any, a_call: Any) -> None:
    for n in range(3):
        await in_thread(a_call)("approval-requested", call_id=f"c{n}")
    await in_thread(a_call)("output-denied", call_id="denied")
    result = await pages(call, "/api/v1/approvals?state=waiting&limit=2", "approvals")
    assert [[one["call_id"] for one in page] for page in result] == [["c0", "c1"], ["c2"]]
    one = result[0][0]
    assert (one["state"], one["call"]["state"], one["run"]) == ("pending", "approval-requested", "run-1")
    assert "permit" not in one
    everything = await pages(call, "/api/v1/approvals?limit=3", "approvals")
    assert [len(page) for page in everything] == [3, 1]


async def test_an_address_that_is_not_there_is_json_for_machines(call: Any, key: Any) -> None:
    status, body, _ = await call("GET", "/api/v1/nothing")
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_a_host_that_is_not_ours_is_refused(call: Any, key: Any) -> None:
    assert (await call("GET", "/api/v1/runs", host="evil.example"))[0] == 400
