"""The base of pydantic adapters: one model per frame type, which returns its facts.

Hot frames (a few characters of text, ten thousand per second) are validated directly from their text and
read once. Frames with values of the agent are read a second time by `strict`, which finds what
pydantic accepts: duplicate keys, NaN, deep nesting.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, BadFrame, Facts
from toolcards.core.runs.run_context import SkippedFrame


class ProtocolFrame(BaseModel):
    """A frame of a protocol. Unknown fields are allowed; `texts` counts the required text fields of a hot frame.

    The other fields of a hot frame must be optional numbers: then the count of quotes proves that no key is repeated.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    texts: ClassVar[int] = 0

    def to_facts(self) -> Facts | SkippedFrame:
        """Return the facts of the frame; none by default."""
        return []


class Decoder:
    """Decodes the frames of a discriminated union by their `type`."""

    def __init__(self, union: Any, quiet_prefix: str = "\0") -> None:
        validator = TypeAdapter(union).validator
        self._from_text = validator.validate_json
        self._from_value = validator.validate_python
        self._quiet_prefix = quiet_prefix

    def decode(self, text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
        """Return the frame's facts, SkippedFrame for an unknown type; raises BadFrame."""
        try:
            frame = self._from_text(text)
        except (ValidationError, UnicodeError):
            return self._decode_slowly(text, depth)
        # A hot frame repeats no member if it has four quotes for each text field and two for each number field.
        # A backslash before a quote hides it, unless it is itself escaped: such texts are not judged so.
        quotes = text.count('"') - text.count('\\"') if "\\" in text else text.count('"')
        expected_count = 2 * (frame.texts + len(frame.__pydantic_fields_set__))
        if not frame.texts or quotes != expected_count or '\\\\"' in text:
            strict.loads(text, depth)
        facts: Facts | SkippedFrame = frame.to_facts()
        return facts

    def _decode_slowly(self, text: str, depth: int) -> Facts | SkippedFrame:
        """Decode a frame that is invalid, unknown, or contains a lone surrogate."""
        return self.decode_value(strict.loads(text, depth))

    def decode_value(self, value: Any) -> Facts | SkippedFrame:
        """Return the facts of a parsed frame; raises BadFrame."""
        if not isinstance(value, dict):
            raise BadFrame("a frame must be one JSON object", "not_object")
        if not isinstance(value.get("type"), str):
            code = "bad_field" if "type" in value else "missing_field"
            raise BadFrame("type: every frame requires a type, as text", code)
        safe_value, has_moved = strict.shelter_surrogates(value)
        facts = self._validate(safe_value)
        if not has_moved:
            return facts
        return _restore_fact(facts) if isinstance(facts, SkippedFrame) else [_restore_fact(fact) for fact in facts]

    def _validate(self, value: dict[str, Any]) -> Facts | SkippedFrame:
        try:
            facts: Facts | SkippedFrame = self._from_value(value).to_facts()
            return facts
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if problem["type"] == "union_tag_invalid" and not problem["loc"]:
            return [] if value["type"].startswith(self._quiet_prefix) else SkippedFrame(value["type"])
        path = ".".join(str(part) for part in problem["loc"][1:])
        code = "missing_field" if problem["type"] == "missing" else "bad_field"
        raise BadFrame(f"{value['type']}: {path}: {problem['msg']}", code)


def _restore_fact(fact: Any) -> Any:
    values = {name.name: getattr(fact, name.name) for name in fields(fact)}
    return replace(fact, **{name: strict.restore_surrogates(value) for name, value in values.items()})
