"""Input repair on the server: the shared rules, checked against full JSON Schema 2020-12.

Validation is offline and bounded, and its messages hold no values.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from typing import Any

import jsonschema_rs

from toolcards.client.common import input_repair
from toolcards.client.common.input_fixes import SchemaError, format_pointer
from toolcards.client.common.input_repair import DANGER, Offer, Offers, Repair, Trouble, fits, parse_offers

__all__ = ["DANGER", "Offer", "Offers", "Repair", "Trouble", "check", "fits", "parse_offers", "repair"]

MAX_SCHEMA_LENGTH = 64_000  # characters; larger schemas are not read
MAX_FINDINGS = 20  # findings per value
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000, dfa_size_limit=1_000_000)


def find_errors(schema: Any, value: Any) -> list[SchemaError]:
    """Return up to `MAX_FINDINGS` errors; none if the schema itself is unusable."""
    validator = _compile(_dump_schema(schema))
    if validator is None:
        return []
    findings: list[SchemaError] = []
    try:
        for error in validator.iter_errors(value):
            findings.append(_build_finding(error))
            if len(findings) == MAX_FINDINGS:
                break
    except (ValueError, RecursionError, OverflowError):  # the value is not JSON
        return findings
    return findings


def is_usable(schema: Any) -> bool:
    """Return whether the schema can be used to check anything."""
    return _compile(_dump_schema(schema)) is not None


def _dump_schema(schema: Any) -> str:
    if not isinstance(schema, dict) or not schema:
        return ""
    try:
        return json.dumps(schema, sort_keys=True, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return ""


@lru_cache(maxsize=512)
def _compile(text: str) -> Any:
    """Return the compiled schema; None if it is empty, invalid, or needs a download."""
    if not text or len(text) > MAX_SCHEMA_LENGTH:
        return None
    try:
        return jsonschema_rs.validator_for(
            json.loads(text), offline=True, mask="the value", pattern_options=_PATTERNS, validate_formats=False
        )
    except Exception:  # the schema comes from an agent
        return None


def _build_finding(error: Any) -> SchemaError:
    unexpected_names = getattr(error.kind, "unexpected", ()) if error.kind.name == "additionalProperties" else ()
    return SchemaError(
        format_pointer(error.instance_path), str(error.kind.name), str(error.message)[:300],
        tuple(name for name in unexpected_names if isinstance(name, str)),
        (str(error.kind.property),) if error.kind.name == "required" else (),
    )  # fmt: skip


check = partial(input_repair.check, findings=find_errors)
repair = partial(input_repair.repair, findings=find_errors)
