"""The OpenAPI document: every address, and no open reference."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from dashboard import urls
from dashboard.help.openapi import build_document
from toolcards.transports.urls import ROUTES


def test_the_openapi_document_lists_every_address_with_its_methods() -> None:
    paths = build_document()["paths"]
    expected = {"/" + re.sub(r"<(\w+)>", r"{\1}", pattern): {view.method.lower()} for pattern, view in ROUTES.items()}
    assert {path: set(methods) for path, methods in paths.items() if path in expected} == expected
    patterns = [
        str(entry.pattern) for entry in (*urls.ANSWERING, *urls.AUDIT, *urls.POLICY, *urls.GRANTING, *urls.EMERGENCY)
    ]
    people = {"/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", one) for one in patterns if one.startswith("api/")}
    assert set(paths) == {*expected, *people, "/api/v1/ingest"}


def test_the_openapi_document_has_no_open_reference() -> None:
    document = build_document()
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))):
        part: Any = document
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
    identifiers = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.django_db(transaction=True)
def test_the_openapi_document_names_the_cookie_of_a_signed_in_person(admin_user: Any) -> None:
    browser = Client()
    browser.force_login(admin_user)
    assert build_document()["components"]["securitySchemes"]["session"]["name"] in browser.cookies
    assert settings.SESSION_COOKIE_NAME in browser.cookies


@pytest.mark.django_db(transaction=True)
def test_the_openapi_document_names_the_media_types_that_a_server_takes_and_sends(server: Any) -> None:
    paths = build_document()["paths"]
    bodies = {
        "application/json": '[{"type":"run.started"}]',
        "application/x-ndjson": '{"type":"run.started"}\n',
        "text/event-stream": 'data: {"type":"run.started"}\n\n',
    }
    assert set(paths["/api/v1/ingest"]["post"]["requestBody"]["content"]) == set(bodies)
    for media_type, body in bodies.items():
        path = "/api/v1/ingest?protocol=native&run=typed"
        status, answer, _ = server.request("POST", path, body, Content_Type=media_type)
        assert (status, answer["accepted"]) == (200, 1), media_type
    events = paths["/api/v1/runs/{run}/events"]["get"]["responses"]["200"]["content"]
    assert set(events) == {"application/json", "text/event-stream"}
    _, _, headers = server.request("GET", "/api/v1/runs/typed/events")
    assert headers["content-type"].partition(";")[0] in events
