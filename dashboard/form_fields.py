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
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise forms.ValidationError(f"This is not JSON: {error}.") from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return result


class NamesField(forms.CharField):
    """Names or patterns, separated by commas or line breaks."""

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]  # the field's value is a list
        """Return the names."""
        text = super().to_python(value) or ""
        return [name for name in (part.strip() for part in text.replace("\n", ",").split(",")) if name]

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
