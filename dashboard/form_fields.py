"""Form fields that several rooms share: JSON, lists of names, and errors in one line."""

from __future__ import annotations

import json
from typing import Any

from django import forms


def join_errors(form: forms.Form) -> str:
    """Return the errors of the form in one line."""
    return " ".join(f"{name}: {' '.join(map(str, messages))}" for name, messages in form.errors.items())


def read_json(text: str) -> Any:
    """Return the typed JSON; raises ValidationError, also for NaN and duplicate keys."""
    try:
        return json.loads(
            text, parse_constant=_reject_constant, parse_int=_read_integer, object_pairs_hook=_reject_duplicates
        )
    except RecursionError:
        raise forms.ValidationError("This JSON is nested too deeply.") from None
    except ValueError as error:
        raise forms.ValidationError(f"This is not JSON: {error}.") from None


def _read_integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"a number has {len(digits):,} digits") from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return result


class NamesField(forms.CharField):
    """Names or patterns, separated by commas or line breaks. `max_length` limits the typed text."""

    def clean(self, value: Any) -> list[str]:
        """Return the names of a valid text."""
        text = super().clean(value)
        names = [name for name in (part.strip() for part in text.replace("\n", ",").split(",")) if name]
        self.validate(names)
        return names

    def prepare_value(self, value: Any) -> Any:
        """Show names separated by commas."""
        return ", ".join(value) if isinstance(value, list) else value


class JsonField(forms.CharField):
    """A JSON object that a person types, or nothing."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> dict[str, Any]:  # type: ignore[override]  # the field's value is an object
        """Return the object."""
        text = (super().to_python(value) or "").strip()
        value_read = read_json(text) if text else {}
        if not isinstance(value_read, dict):
            raise forms.ValidationError("This must be an object in braces: {…}.")
        return value_read

    def prepare_value(self, value: Any) -> Any:
        """Show an object with its lines indented."""
        if isinstance(value, dict):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        return value
