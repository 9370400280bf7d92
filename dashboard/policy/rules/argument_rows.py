"""The rows of a rule's form that are conditions on arguments: all hold, unless one of the exceptions does.

The first row has the fields `path`, `op` and `value`; row 2 has `path_2`, `op_2`, `value_2`, and `clause_2`, which says
whether it is a further condition or an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms.boundfield import BoundField

from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.core.policy.matching.matchers import MATCHERS

SPARE_ROWS = 3
MAX_ROWS = 20
WHEN, UNLESS = "match", "unless"
CLAUSES = ((WHEN, "and when"), (UNLESS, "unless"))
_NAMES = ("path", "op", "value")
_POINTERS = {WHEN: r"/match/args/([0-9]{1,4})/(\w+)", UNLESS: r"/unless/([0-9]{1,4})/args/0/(\w+)"}


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """The bound fields of one row."""

    path: BoundField
    op: BoundField
    value: BoundField
    clause: BoundField | None
    is_spare: bool


class ArgumentField(forms.CharField):
    """The JSON Pointer of an argument; `command` and `input.command` are /command."""

    def clean(self, value: Any) -> str:
        """Return the pointer."""
        path: str = super().clean(value).strip()
        name = path.removeprefix("input.")
        return f"/{name}" if re.fullmatch(r"[\w-]+", name) else path


def name_field(name: str, row: int) -> str:
    """Return the name of a field in that row, counted from 1."""
    return name if row == 1 else f"{name}_{row}"


def build_fields(first_row: int = 1) -> dict[str, forms.Field]:
    """Return the fields of all rows from this one on."""
    fields: dict[str, forms.Field] = {}
    for row in range(first_row, MAX_ROWS + 1):
        if row > 1:
            fields[name_field("clause", row)] = forms.ChoiceField(choices=CLAUSES, required=False, label="Applies")
        fields[name_field("path", row)] = ArgumentField(
            required=False, max_length=500, label="Argument", help_text="Its name, such as command, or a JSON Pointer."
        )
        fields[name_field("op", row)] = forms.ChoiceField(
            choices=[("", "…")] + [(name, matcher.label) for name, matcher in MATCHERS.items()],
            required=False,
            label="Operator",
        )
        fields[name_field("value", row)] = forms.CharField(
            required=False,
            label="Value",
            widget=forms.Textarea(attrs={"rows": 2}),
            help_text="One per line: any of them.",
        )
    return fields


class ArgumentRows(forms.Form):
    """The rows of a form; `rows` has those with values, and spare ones."""

    @property
    def rows(self) -> list[ConditionRow]:
        """Return the rows to draw."""
        last_row = max(count_rows(self.data if self.is_bound else self.initial), 1)
        return [
            ConditionRow(
                path=self[name_field("path", row)],
                op=self[name_field("op", row)],
                value=self[name_field("value", row)],
                clause=self[name_field("clause", row)] if row > 1 else None,
                is_spare=row > last_row,
            )
            for row in range(1, count_drawn_rows(last_row) + 1)
        ]

    def clean(self) -> dict[str, Any]:
        """Refuse rows beyond those of the form, which would be lost."""
        names = {name_field(name, row) for name in _NAMES for row in range(1, MAX_ROWS + 1)}
        if any(re.fullmatch(r"(path|op|value)_[0-9]+", name) and name not in names for name in self.data):
            raise forms.ValidationError(f"A rule has at most {MAX_ROWS} rows. Write further conditions as JSON.")
        return super().clean() or self.cleaned_data


ArgumentRows.declared_fields.update(build_fields())


def count_drawn_rows(last_row: int) -> int:
    """Return how many rows a form with these values shows."""
    return min(max(last_row, 1) + SPARE_ROWS, MAX_ROWS)


def count_rows(values: Mapping[str, Any]) -> int:
    """Return the number of the last row with a value."""
    return max((row for row in range(1, MAX_ROWS + 1) if _is_filled(values, row)), default=0)


def _is_filled(values: Mapping[str, Any], row: int) -> bool:
    return any(values.get(name_field(name, row)) for name in _NAMES)


def _list_rows(form_data: Mapping[str, Any], clause: str) -> list[int]:
    """Return the rows of that clause; each is a condition of the rule."""
    return [
        row
        for row in range(1, MAX_ROWS + 1)
        if _is_filled(form_data, row) and (form_data.get(f"clause_{row}") or WHEN) == clause
    ]


def build_arguments(form_data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions that must hold; raises PolicyError."""
    return [
        _build_argument(form_data, row, f"/match/args/{number}")
        for number, row in enumerate(_list_rows(form_data, WHEN))
    ]


def build_exceptions(form_data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the exceptions, each a clause of one condition; raises PolicyError."""
    return [
        {"args": [_build_argument(form_data, row, f"/unless/{number}/args/0")]}
        for number, row in enumerate(_list_rows(form_data, UNLESS))
    ]


def _build_argument(form_data: Mapping[str, Any], row: int, pointer: str) -> dict[str, Any]:
    path, op, value = (form_data.get(name_field(name, row)) or "" for name in _NAMES)
    if not op:
        raise PolicyError([PolicyFinding(f"{pointer}/op", "missing", "Choose an operator.")])
    argument: dict[str, Any] = {"path": path, "op": op}
    read = _VALUES.get(MATCHERS[op].shape.input)
    return argument | {"value": read(value)} if read else argument


def find_field(pointer: str, form_data: Mapping[str, Any]) -> str:
    """Return the field at a JSON Pointer of the rule, or ""."""
    for clause, pattern in _POINTERS.items():
        place = re.match(pattern, pointer, re.ASCII)
        rows = _list_rows(form_data, clause)
        if place and place[2] in _NAMES and int(place[1]) < len(rows):
            return name_field(place[2], rows[int(place[1])])
    return ""


def pop_conditions(match: dict[str, Any]) -> dict[str, Any]:
    """Remove the conditions on arguments, and return them as rows.

    If rows cannot express all of them, they stay.
    """
    arguments = wrap_in_list(match.get("args"))
    rows = [_read_argument(argument) for argument in arguments]
    if not rows or None in rows or len(rows) > MAX_ROWS // 2:
        return {}
    match.pop("args")
    return dict(_name_values(rows, 1, WHEN))


def read_exceptions(unless: Any, *, first_row: int) -> dict[str, Any]:
    """Return the exceptions as rows, if rows can express all of them."""
    clauses = wrap_in_list(unless)
    arguments = [
        wrap_in_list(clause.get("args")) if isinstance(clause, dict) and set(clause) == {"args"} else []
        for clause in clauses
    ]
    rows = [_read_argument(argument[0]) if len(argument) == 1 else None for argument in arguments]
    if not rows or None in rows or len(rows) > MAX_ROWS // 2:
        return {}
    return dict(_name_values(rows, max(first_row, 2), UNLESS))


def _name_values(rows: list[dict[str, Any] | None], first_row: int, clause: str) -> Iterator[tuple[str, Any]]:
    for row, values in enumerate(rows, first_row):
        for name, value in (values or {}).items():
            yield name_field(name, row), value
        if row > 1:
            yield f"clause_{row}", clause


def _read_argument(argument: Any) -> dict[str, Any] | None:
    """Return the values of a row; None if a row cannot express the condition."""
    if not isinstance(argument, dict) or not set(argument) <= {"path", "op", "value"}:
        return None
    text = _operand_to_text(argument)
    return None if text is None else {"path": argument["path"], "op": argument["op"], "value": text}


def _operand_to_text(argument: dict[str, Any]) -> str | None:
    value, shape = argument.get("value"), MATCHERS[argument["op"]].shape.input
    if shape == "json":
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        plain = all(isinstance(item, str) and "\n" not in item for item in value)
        return "\n".join(value) if plain else None
    return "" if value in (None, True) else str(value)


def wrap_in_list(value: Any) -> list[Any]:
    """Return one object, a list of them or nothing as a list."""
    return [value] if isinstance(value, dict) else list(value or ())


def _split_lines(text: str) -> Any:
    lines = [line for line in (line.strip("\r") for line in text.split("\n")) if line.strip()]
    return lines[0] if len(lines) == 1 else lines


def _parse_number(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parse_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


_VALUES = {
    "lines": _split_lines,
    "types": _split_lines,
    "number": _parse_number,
    "json": _parse_json_or_text,
}  # by the type of the operand
