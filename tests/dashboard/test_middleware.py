"""Nothing that people or agents said stays in a cache, and what no one understands is refused with a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.server import Server


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
