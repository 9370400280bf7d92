"""Values against the schemas of the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from dashboard.help.openapi import build_document


def is_valid(name: str, value: Any) -> list[str]:
    """Return what the schema of that name has against the value."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": build_document()["components"]}
    errors = jsonschema_rs.Draft202012Validator(schema, offline=True).iter_errors(json.loads(json.dumps(value)))
    return [f"{error.instance_path}: {error.message}" for error in errors]
