"""Requests of machines go by their path as it was sent; whatever else there is goes to Django."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.transports import routing
from toolcards.transports.api.asgi_messages import decode_path_part
from toolcards.transports.routing import MachineRouter, reject_socket
from toolcards.transports.urls import ROUTES


async def send_request(path: str, raw_path: bytes | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what is answered to a GET without a key, and the paths that were passed on."""
    answers: list[dict[str, Any]] = []
    passed_on: list[str] = []

    async def pass_on(scope: Any, receive: Any, send: Any) -> None:
        passed_on.append(scope["path"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": raw_path, "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
    }  # fmt: skip
    await MachineRouter(pass_on)(scope, receive, send)
    return answers, passed_on


def find_route(path: str) -> tuple[str, dict[str, str]] | None:
    """Return the route of a path as it was sent, and its parts."""
    views = {id(view): route for route, view in ROUTES.items()}
    if path in routing._fixed_routes:
        return views[id(routing._fixed_routes[path].view)], {}
    for pattern, application in routing._routes:
        if match := pattern.fullmatch(path):
            return views[id(application.view)], match.groupdict()
    return None


@loop_over(
    "path, route, parts",
    [
        ("/healthz", "healthz", {}),
        ("/healthz/", "healthz", {}),
        ("/api/v1/runs", "api/v1/runs", {}),
        ("/api/v1/runs/a", "api/v1/runs/<run>", {"run": "a"}),
        ("/api/v1/runs/a/", "api/v1/runs/<run>", {"run": "a"}),
        ("/api/v1/runs/a%2Fb/calls", "api/v1/runs/<run>/calls", {"run": "a%2Fb"}),
        ("/api/v1/runs/calls", "api/v1/runs/<run>", {"run": "calls"}),
        ("/api/v1/runs/calls/calls/", "api/v1/runs/<run>/calls", {"run": "calls"}),
        ("/api/v1/calls/decide", "api/v1/calls/decide", {}),
        ("/api/v1/calls/a%0Ab/result", "api/v1/calls/<call_id>/result", {"call_id": "a%0Ab"}),
        ("/api/v1/ag-ui/up", "api/v1/ag-ui/<upstream>", {"upstream": "up"}),
    ],
)
def test_a_path_finds_its_route_with_and_without_a_slash(path: str, route: str, parts: dict[str, str]) -> None:
    assert find_route(path) == (route, parts)


@loop_over(
    "path",
    ["/healthz//", "//healthz", "/Healthz", "/api/v1/runs//", "/api/v1/runs/a/b", "/api/v1/runs/a/calls/x",
     "/x/healthz", "/api/v1/calls//result", "healthz", ""],
)  # fmt: skip
def test_a_path_next_to_a_route_has_no_view(path: str) -> None:
    assert find_route(path) is None


@loop_over("route", ROUTES)
def test_every_route_finds_itself_with_a_slash_in_a_name(route: str) -> None:
    name = "a%2Fb"
    path = "/".join(name if part.startswith("<") else part for part in route.split("/"))
    own_route = find_route(f"/{path}")
    assert own_route is not None and own_route[0] == route
    assert all(decode_path_part(part) == "a/b" for part in own_route[1].values())


@pytest.mark.parametrize("path", ["/api/v1/ingest", "/api/v1/ingest/"])
async def test_frames_are_taken_at_their_own_address(path: str) -> None:
    answers, passed_on = await send_request(path)
    assert (answers[0]["status"], passed_on) == (405, [])


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/api/v1/runs", 401), ("/api/v1/runs/a", 401)])
async def test_an_address_of_machines_is_answered_here(path: str, status: int) -> None:
    answers, passed_on = await send_request(path)
    assert (answers[0]["status"], passed_on) == (status, [])


async def test_a_name_with_a_slash_is_one_part_of_the_path_as_it_was_sent() -> None:
    answers, _ = await send_request("/api/v1/runs/a/b", b"/api/v1/runs/a%2Fb?x=1")
    assert answers[0]["status"] == 401  # a run; the decoded path is no address
    answers, _ = await send_request("/api/v1/runs/a/b", b"/api/v1/runs/a/b")
    assert answers[0]["status"] == 404


async def test_an_unknown_address_of_the_api_is_answered_in_json() -> None:
    answers, passed_on = await send_request("/api/v1/nothing")
    assert (answers[0]["status"], passed_on) == (404, [])
    assert json.loads(answers[1]["body"])["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/", "/runs/", "/nothing/", "/api", "/api/v1/grants"])
async def test_pages_and_what_django_serves_of_the_api_are_passed_on(path: str) -> None:
    assert await send_request(path) == ([], [path])


async def test_a_socket_at_an_unknown_address_opens_and_closes_with_a_code() -> None:
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await reject_socket({"type": "websocket"}, receive, send)
    assert messages == [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 4404}]
