"""Forms of MCP servers (`elicitation/create`): their fields, and the values that people enter.

The schema is flat (protocol 2025-11-25 and 2026-07-28): strings with an optional format, numbers, booleans, and choices
written as `enum`, `const`, or `oneOf` and `anyOf` of titled constants; a list of choices is an array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

TOOL = "elicitation/create"  # the name of the call that shows a form; the gateway refuses tools of this name
SCHEMA, MESSAGE = "requestedSchema", "message"
MAX_FIELDS, MAX_CHOICES = 50, 200
MAX_TEXT = 4_000  # characters of one value
MAX_INTEGER = 2**53 - 1  # larger ones have no canonical form
_TYPES = ("string", "number", "integer", "boolean", "array")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_HINTS = {"email": "an email address", "uri": "an address with its scheme", "date": "a date, YYYY-MM-DD",
          "date-time": "a date and time, YYYY-MM-DDThh:mm:ssZ"}  # fmt: skip


class InvalidAnswer(ValueError):
    """A value that does not fit its field; the message is for the person."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field. `type` is the type of its value or of a list; `choices` has values and labels."""

    name: str
    type: str
    title: str
    description: str = ""
    is_required: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    default: Any = None
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hint(self) -> str:
        """Return what a value looks like, "" if any text is valid."""
        limits = {name: self.schema[name] for name in ("minimum", "maximum") if _is_number(self.schema.get(name))}
        words = {"integer": "a whole number", "number": "a number"}.get(self.type, "")
        words = words or _HINTS.get(str(self.schema.get("format")), "")
        words += "".join(f", at {'least' if name == 'minimum' else 'most'} {value:g}" for name, value in limits.items())
        return words

    def parse_text(self, text: str) -> Any:
        """Return the value of a typed text; raises InvalidAnswer."""
        if self.type in {"integer", "number"}:
            if len(text) > 40 or not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
                raise InvalidAnswer(f"{self.title}: enter {self.hint}.")
            value: Any = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
            if isinstance(value, float) and math.isfinite(value) and value.is_integer():
                value = int(value)
        else:
            value = text
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raise InvalidAnswer unless the value fits."""
        if self.type == "array":
            self._check_list(value)
        elif self.choices:
            if not any(_is_same(value, choice) for choice, _ in self.choices):
                raise InvalidAnswer(f"{self.title}: choose one of the options.")
        elif self.type == "boolean":
            if not isinstance(value, bool):
                raise InvalidAnswer(f"{self.title}: choose yes or no.")
        elif self.type == "string":
            self._check_text(value)
        else:
            self._check_number(value)

    def _check_list(self, value: Any) -> None:
        values = value if isinstance(value, list) else [None]
        is_allowed = all(any(_is_same(each, choice) for choice, _ in self.choices) for each in values)
        if not is_allowed or len({repr(each) for each in values}) < len(values):
            raise InvalidAnswer(f"{self.title}: choose from the options.")
        least, most = _get_number(self.schema, "minItems", 0), _get_number(self.schema, "maxItems", math.inf)
        if not least <= len(values) <= most:
            raise InvalidAnswer(f"{self.title}: choose {_describe_range(least, most)} options.")

    def _check_text(self, value: Any) -> None:
        if not isinstance(value, str):
            raise InvalidAnswer(f"{self.title}: enter a text.")
        least = _get_number(self.schema, "minLength", 0)
        most = min(_get_number(self.schema, "maxLength", MAX_TEXT), MAX_TEXT)
        if not least <= len(value) <= most:
            raise InvalidAnswer(f"{self.title}: enter {_describe_range(least, most)} characters.")
        if not _has_format(value, str(self.schema.get("format"))):
            raise InvalidAnswer(f"{self.title}: enter {self.hint}.")

    def _check_number(self, value: Any) -> None:
        is_fitting = _is_number(value) and abs(value) <= MAX_INTEGER
        if not is_fitting or (self.type == "integer" and not float(value).is_integer()):
            raise InvalidAnswer(f"{self.title}: enter {self.hint}.")
        schema = self.schema
        if not (
            _get_number(schema, "minimum", -math.inf) <= value <= _get_number(schema, "maximum", math.inf)
            and _get_number(schema, "exclusiveMinimum", -math.inf) < value
            and value < _get_number(schema, "exclusiveMaximum", math.inf)
        ):
            raise InvalidAnswer(f"{self.title}: enter {self.hint}.")


def read_fields(value: Any) -> tuple[FormField, ...] | None:
    """Return the fields of a form in order; None if invalid.

    A form without fields asks for consent.
    """
    schema = value.get(SCHEMA) if isinstance(value, dict) else None
    if not isinstance(schema, dict) or not isinstance(value.get(MESSAGE), str):
        return None
    properties, required_names = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required_names, list) or len(properties) > MAX_FIELDS:
        return None
    fields = [_read_field(name, each, schema, name in required_names) for name, each in properties.items()]
    if not all(isinstance(name, str) and name in properties for name in required_names):
        return None
    return tuple(each for each in fields if each is not None) if None not in fields else None


def check_answers(value: Any, answers: Any) -> None:
    """Raise InvalidAnswer unless the answers fit the form."""
    fields = {each.name: each for each in read_fields(value) or ()}
    if not isinstance(answers, Mapping):
        raise InvalidAnswer("The answers must be an object.")
    for name, each in fields.items():
        if name in answers:
            each.check(answers[name])
        elif each.is_required:
            raise InvalidAnswer(f"{each.title}: an answer is required.")
    require_known(answers, fields)


def require_known(answers: Collection[str], fields: Collection[str]) -> None:
    """Raise InvalidAnswer if an answer is for no field of the form."""
    if unknown := [name for name in answers if name not in fields]:
        raise InvalidAnswer(f"The form has no field {unknown[0]!r}.")


# ---------------------------------------------------------------- the schema of one field


def _read_field(name: str, schema_value: Any, form: Mapping[str, Any], is_required: bool) -> FormField | None:
    schema = _resolve(schema_value, form)
    if schema is None:
        return None
    values_schema = _resolve(schema.get("items"), form) if schema.get("type") == "array" else schema
    choices = _read_choices(values_schema) if values_schema is not None else None
    kind = _find_type(schema, choices)
    if kind is None or choices is None or (kind == "array" and not choices):
        return None
    title, description = (_get_text(schema, member) for member in ("title", "description"))
    return FormField(name, kind, title or name, description, is_required, choices, schema.get("default"), schema)


def _resolve(schema: Any, form: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema without a reference to a definition, and without null as an alternative."""
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("$ref"), str):
        definitions = form.get("$defs")
        target = definitions.get(schema["$ref"].removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
        return {**target, **schema} if isinstance(target, dict) and "$ref" not in target else None
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, list) and {"type": "null"} in alternatives:
        types = [each for each in alternatives if each != {"type": "null"}]
        other_members = {name: value for name, value in schema.items() if name != "anyOf"}
        if len(types) != 1:
            return {**other_members, "anyOf": types}
        target = _resolve(types[0], form)
        return {**target, **other_members} if target is not None else None
    return schema


def _find_type(schema: Mapping[str, Any], choices: tuple[tuple[Any, str], ...] | None) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind is None and choices:
        return "string"  # the values say what they are
    return kind if kind in _TYPES else None


def _read_choices(schema: Mapping[str, Any]) -> tuple[tuple[Any, str], ...] | None:
    """Return values and labels, () if any value fits, None if they cannot be shown."""
    if "const" in schema:
        values, labels = [schema["const"]], [_get_text(schema, "title")]
    elif "enum" in schema:
        values, labels = schema["enum"], schema.get("enumNames", [])
    elif "oneOf" in schema or "anyOf" in schema:
        alternatives = schema.get("oneOf", schema.get("anyOf"))
        if not isinstance(alternatives, list) or not all(isinstance(e, dict) and "const" in e for e in alternatives):
            return None
        values, labels = [each["const"] for each in alternatives], [_get_text(e, "title") for e in alternatives]
    else:
        return ()
    if not isinstance(values, list) or not isinstance(labels, list) or not 0 < len(values) <= MAX_CHOICES:
        return None
    if not all(isinstance(value, str | int | float | bool) for value in values):
        return None
    shown_labels = labels if len(labels) == len(values) and all(isinstance(each, str) for each in labels) else values
    return tuple((value, str(label) or str(value)) for value, label in zip(values, shown_labels, strict=True))


def _has_format(text: str, name: str) -> bool:
    try:
        match name:
            case "email":
                return _EMAIL.fullmatch(text) is not None
            case "uri":
                return _URI.fullmatch(text) is not None
            case "date":
                return len(text) == 10 and date.fromisoformat(text) is not None
            case "date-time":
                return "T" in text.upper() and datetime.fromisoformat(text) is not None
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _get_number(schema: Mapping[str, Any], name: str, default: float) -> float:
    value = schema.get(name)
    return value if isinstance(value, int | float) and _is_number(value) else default


def _is_same(value: Any, choice: Any) -> bool:
    return type(value) is type(choice) and bool(value == choice)


def _describe_range(least: float, most: float) -> str:
    if math.isinf(most):
        return f"at least {least:g}"
    return f"{least:g} to {most:g}" if least else f"at most {most:g}"


def _get_text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
