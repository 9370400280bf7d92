"""Secrets by what is next to them: the schema of a field stays readable, its values do not."""

from __future__ import annotations

from toolcards.core.redaction.redactor import Redactor

HIDE = Redactor(b"a key of the tests")


LONG = "aB3dE5gH7jK9" * 4


def test_the_schema_of_a_secret_field_stays_readable_but_its_values_do_not():
    schema = {"type": "string", "title": "Your password", "default": "hunter2hunter2"}
    masked_value = HIDE.value({"type": "object", "properties": {"password": schema, "size": {"type": "string"}}})
    field = masked_value["properties"]["password"]
    assert (field["type"], field["title"], masked_value["properties"]["size"]) == (
        "string",
        "Your password",
        {"type": "string"},
    )
    assert "hunter2" not in str(masked_value)
    token = f"ghp_{LONG[:36]}"
    assert token not in str(HIDE.value({"type": "object", "properties": {token: {"type": "string"}}}))
    nested = {"type": "object", "properties": {"a": {"type": "string", "title": token}}}
    for _ in range(70):
        nested = {"type": "object", "properties": {"password": nested}}
    assert token not in str(HIDE.value(nested))
    for hostile in (
        {"password": "hunter2hunter2"},
        {"password": {"a": "hunter2hunter2"}},
        {"password": {"type": "x1y2"}},
    ):
        assert "‹secret" in str(HIDE.value({"type": "object", "properties": hostile}))
