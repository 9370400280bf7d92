"""Repairs one place of an input where it does not fit its schema, a `SchemaError`. No value is removed.

A text that spells the number, truth value, object or list that is wanted becomes it, and a field that the schema does
not allow gets the one free name of the schema that differs only in case, - and _.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One place that does not match: `pointer` into the input, the schema's `keyword`, and a message without values.

    `unexpected` are the property names that the schema does not allow there, `missing` those that it requires.
    """

    pointer: str
    keyword: str
    message: str
    unexpected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


FindSchemaErrors = Callable[[Any, Any], list[SchemaError]]  # of a schema and a value; none if the schema cannot be used


def format_pointer(names: Iterable[Any]) -> str:
    """Return the JSON Pointer of the path."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)


_MAX_DIGITS = 17  # characters of a number that is read from a text
Fix = tuple[Any, str, tuple[str, ...]]  # the value, the method, and the names that fields have now


def fix_finding(value: Any, finding: SchemaError, schema: Any) -> Fix:
    """Return the value with this place repaired.

    Return the value itself unless there is exactly one way.
    """
    fix = _FIXES.get(finding.keyword)
    return fix(value, finding, _find_schema(schema, finding.pointer)) if fix is not None else (value, "", ())


def strip_separators(name: str) -> str:
    """Return the name without - and _."""
    return name.replace("-", "").replace("_", "")


def _parse_text(value: Any, finding: SchemaError, schema: Mapping[str, Any]) -> Fix:
    """Replace a text by the number, object or list that it contains, and an empty text by {}."""
    text = _find_value(value, finding.pointer)
    if not isinstance(text, str):
        return value, "", ()
    declared_type = schema.get("type")
    if declared_type in ("integer", "number", "boolean"):
        inner, method = _read_scalar(text, declared_type), f"{declared_type} inside a text"
        is_found = inner is not None
    else:
        inner, method = (_read(text), "JSON inside a text") if text.strip() else ({}, "empty input")
        is_found = isinstance(inner, (dict, list))
    return (_replace_value(value, _steps(finding.pointer), inner), method, ()) if is_found else (value, "", ())


def _read_scalar(text: str, kind: str) -> Any:
    """Return the number or truth value that this text spells in one way only, else None."""
    if len(text) > _MAX_DIGITS or (kind == "boolean") != (text in ("true", "false")):
        return None
    scalar = _read(text)
    if kind == "integer" and type(scalar) is not int:
        return None
    is_plain = isinstance(scalar, (bool, int, float)) and json.dumps(scalar) == text
    return scalar if is_plain else None


def _read(text: str) -> Any:
    """Return the JSON in the text; None if it is ambiguous, such as a duplicate name."""
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_parse_float
        )
    except (ValueError, RecursionError):
        return None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is given twice")
    return members


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_float(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError("the number is too large")
    return number


def _rename_unknown(value: Any, finding: SchemaError, schema: Mapping[str, Any]) -> Fix:
    """Rename each field that the schema does not allow, if exactly one free name of the schema is similar."""
    container, properties = _find_value(value, finding.pointer), schema.get("properties")
    if not isinstance(container, dict) or not isinstance(properties, dict):
        return value, "", ()
    new_names: dict[str, str] = {}
    for name in container:
        similar = [each for each in properties if _fold_field(each) & _fold_field(name)]
        if name in properties or name not in finding.unexpected:
            continue
        if len(similar) != 1 or similar[0] in container or similar[0] in new_names.values():
            return value, "", ()
        new_names[name] = similar[0]
    renamed_container = {new_names.get(name, name): item for name, item in container.items()}
    result = _replace_value(value, _steps(finding.pointer), renamed_container)
    return result, "field name" if new_names else "", tuple(new_names.values())


def _fold_field(name: str) -> set[str]:
    """Return the name without case, - and _; "" for names beyond ASCII."""
    folded_name = strip_separators(name.lower()) if name.isascii() and len(name) <= 200 else ""
    return {folded_name} if folded_name else set()


def _find_schema(schema: Any, pointer: str) -> Mapping[str, Any]:
    """Return the schema of the value at the pointer; empty where it is not one plain schema."""
    root = schema
    for step in [None, *_steps(pointer)]:
        if step is not None and isinstance(schema, dict):
            properties, items = schema.get("properties"), schema.get("items")
            schema = properties.get(step) if isinstance(properties, dict) else items if _is_index(step) else None
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#/"):
            schema = _find_value(root, schema["$ref"][1:])
    return schema if isinstance(schema, dict) else {}


_FIXES: Mapping[str, Callable[[Any, SchemaError, Mapping[str, Any]], Fix]] = {
    "type": _parse_text,
    "additionalProperties": _rename_unknown,
}


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10  # `int` refuses "²" and thousands of digits


def _find_value(value: Any, pointer: str) -> Any:
    for step in _steps(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _replace_value(value: Any, steps: list[str], new: Any) -> Any:
    """Return a copy of the value with that place replaced."""
    if not steps:
        return new
    first, remaining = steps[0], steps[1:]
    if isinstance(value, dict):
        return {**value, first: _replace_value(value.get(first), remaining, new)}
    return [_replace_value(item, remaining, new) if str(index) == first else item for index, item in enumerate(value)]
