"""The OpenAPI document: every address, and no open reference."""

from __future__ import annotations

import json
import re
from typing import Any

from dashboard import urls
from dashboard.help.openapi import build_document
from toolcards.transports.urls import ROUTES


def test_the_openapi_document_lists_every_address_with_its_methods() -> None:
    paths = build_document()["paths"]
    expected = {"/" + re.sub(r"<(\w+)>", r"{\1}", pattern): {view.method.lower()} for pattern, view in ROUTES.items()}
    assert {path: set(methods) for path, methods in paths.items() if path in expected} == expected
    patterns = [str(entry.pattern) for entry in (*urls.POLICY, *urls.GRANTING, *urls.EMERGENCY)]
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
