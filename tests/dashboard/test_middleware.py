"""Nothing that people or agents said stays in a cache, and what no one understands is refused with a page."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from dashboard.middleware import WholeResponseCompression, broken
from tests.support.server import Server
from toolcards.models import ToolCall


@pytest.mark.django_db
@pytest.mark.parametrize("path", [
    "/", "/login/", "/runs/", "/approvals/", "/settings/audit/", "/settings/audit/export/", "/policy/export/",
    "/api/v1/runs", "/api/v1/policy/draft", "/admin/", "/nothing/", "/settings/people/", "/admin/login/", "/metrics",
])  # fmt: skip
def test_pages_exports_and_answers_are_not_stored(client: Client, a_person: Any, policy: Any, path: str) -> None:
    policy("watch")
    client.force_login(a_person("admin"))
    answer = client.get(path)
    assert answer["Cache-Control"] == "no-store, private", (answer.status_code, answer["Content-Type"])
    signed_out = Client().get(path)
    assert signed_out["Cache-Control"] == "no-store, private"


def test_files_without_words_of_anyone_are_stored(server: Server) -> None:
    status, _, headers = server.request("GET", "/static/toolcards/base.css", key=None)
    assert status == 200 and "no-store" not in headers.get("Cache-Control", "")


@pytest.mark.parametrize(("path", "kind"), [("/login/", "text/html"), ("/api/v1/policy/draft", "application/json")])
def test_a_form_in_another_charset_is_a_bad_request(server: Server, path: str, kind: str) -> None:
    form = "application/x-www-form-urlencoded; charset=latin1"
    headers = {"Content-Type": form, "Cookie": f"toolcards_csrf={'a' * 32}"}
    status, body, answer_headers = server.request("POST", path, b"a=b", key=None, **headers)
    types = {name.lower(): value for name, value in answer_headers.items()}
    assert status in (400, 401, 405) and types["content-type"].startswith(kind), body


LARGEST_FIRST_LOAD = 100_000  # bytes of a run page's document over the wire


def compress(response: Any, accepted: str = "gzip, deflate, br") -> Any:
    request = HttpRequest()
    request.META["HTTP_ACCEPT_ENCODING"] = accepted
    return WholeResponseCompression(lambda _: response)(request)


@pytest.mark.parametrize("media_type", ["text/html; charset=utf-8", "application/json"])
def test_a_large_text_is_compressed_and_reads_the_same(media_type: str) -> None:
    body = b"a line of text\n" * 10_000
    response = compress(HttpResponse(body, content_type=media_type))
    assert response["Content-Encoding"] == "gzip" and response["Vary"] == "Accept-Encoding"
    assert int(response["Content-Length"]) == len(response.content) < len(body) / 50
    assert gzip.decompress(response.content) == body


@pytest.mark.parametrize("accepted", ["", "identity", "br"])
def test_a_client_that_does_not_accept_gzip_gets_the_text(accepted: str) -> None:
    response = compress(HttpResponse(b"x" * 10_000), accepted)
    assert response.content == b"x" * 10_000 and "Content-Encoding" not in response


@pytest.mark.parametrize("response", [
    HttpResponse(b"x" * 1000), HttpResponse(b"x" * 10_000, content_type="image/png"),
    HttpResponse(b"x" * 10_000, headers={"Content-Encoding": "br"}),
])  # fmt: skip
def test_small_binary_and_compressed_responses_stay_as_they_are(response: HttpResponse) -> None:
    body, encoding = response.content, response.get("Content-Encoding")
    answer = compress(response)
    assert answer.content == body and answer.get("Content-Encoding") == encoding


def test_a_stream_is_passed_on_piece_by_piece() -> None:
    response = compress(StreamingHttpResponse(iter([b"x" * 5000, b"y" * 5000]), content_type="text/html"))
    assert list(response) == [b"x" * 5000, b"y" * 5000] and "Content-Encoding" not in response


def test_two_bodies_of_one_page_differ_in_length() -> None:
    """Random bytes in the header of gzip hide how well a guess compresses (BREACH)."""
    assert len({len(compress(HttpResponse(b"x" * 10_000)).content) for _ in range(50)}) > 5


@pytest.mark.django_db
def test_the_page_of_a_long_run_is_small_over_the_wire(
    client: Client, a_person: Callable[..., Any], a_call: Callable[..., ToolCall]
) -> None:
    for number in range(40):
        call = a_call(call_id=f"c{number}")
    client.force_login(a_person("admin"))
    response = client.get(call.run.url, headers={"Accept-Encoding": "gzip"})
    page = gzip.decompress(response.content)
    assert response["Content-Encoding"] == "gzip" and page.count(b"<article") == 40
    assert len(response.content) < min(LARGEST_FIRST_LOAD, len(page) / 5)


def test_a_server_error_of_the_api_is_json(rf: RequestFactory) -> None:
    answer = broken(rf.get("/api/v1/grants"))
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (500, "internal")
    assert b"<html" in broken(rf.get("/policy/")).content
