"""All kinds of facts, and their JSON in the log."""

from __future__ import annotations

import json
from dataclasses import fields
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, get_args

from toolcards.core.calls.facts.approval_facts import Actor, ApprovalFact
from toolcards.core.calls.facts.input_facts import InputChunk, InputDelta, InputFact
from toolcards.core.calls.facts.outcome_facts import OutcomeFact
from toolcards.core.calls.facts.run_facts import RunFact

# The JSON of inputs and outputs, which the log and the card share, so that each value is encoded once.
#
# The values are never changed in place: an edit or a repair is a new value.
SHARED = frozenset({"input", "output"})  # fields of facts and cards
MAX_LENGTH = 16_384  # characters of a text that is kept
MAX_VALUES = 256
_encode = json.JSONEncoder(separators=(",", ":")).encode
_texts_by_id: dict[int, tuple[Any, str]] = {}  # by identity; the value is kept, so that no other one gets its identity


def encode_value(value: Any) -> str:
    """Return the value as ASCII JSON."""
    entry = _texts_by_id.get(id(value))
    if entry is not None and entry[0] is value:
        return entry[1]
    text = _encode(value)
    if len(text) <= MAX_LENGTH:
        if len(_texts_by_id) >= MAX_VALUES:
            _texts_by_id.clear()
        _texts_by_id[id(value)] = (value, text)
    return text


def encode_record(record: dict[str, Any], shared_parts: dict[str, Any]) -> str:
    """Return an object with the members of both as ASCII JSON.

    The values of `shared_parts` are encoded once.
    """
    text = _encode(record)
    if not shared_parts:
        return text
    members = [f'"{name}":{encode_value(value)}' for name, value in shared_parts.items()]
    return f"{text[:-1]}{',' if record else ''}{','.join(members)}}}"


CallFact: TypeAlias = InputFact | ApprovalFact | OutcomeFact
AnyFact: TypeAlias = CallFact | RunFact
FactT = TypeVar("FactT")

CALL_FACTS: tuple[Any, ...] = get_args(CallFact)
RUN_FACTS: tuple[Any, ...] = get_args(RunFact)
BY_TYPE: dict[str, Any] = {cls.type: cls for cls in CALL_FACTS + RUN_FACTS}
NEVER_LOGGED: tuple[Any, ...] = (InputChunk,)  # the router splits them into facts of the log


def _get_default(field: Any) -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


def _describe_fields(cls: Any) -> tuple[Any, tuple[tuple[str, Any], ...]]:
    """Return the getter of all values of a fact but its time, and the name and default of each."""
    names = [field.name for field in fields(cls) if field.name != "at"]
    defaults = tuple((field.name, _get_default(field)) for field in fields(cls) if field.name != "at")
    # With the name `type`, a fact with a single field has a tuple of values as well.
    return attrgetter("type", *names), (("type", None), *defaults)


_FIELDS: dict[type, tuple[Any, tuple[tuple[str, Any], ...]]] = {cls: _describe_fields(cls) for cls in BY_TYPE.values()}


_POSITIONS: dict[type, tuple[Any, dict[str, int]]] = {
    cls: (
        attrgetter(*(field.name for field in fields(cls))),
        {field.name: position for position, field in enumerate(fields(cls))},
    )
    for cls in (*BY_TYPE.values(), *NEVER_LOGGED)
}


def revise(fact: FactT, **changes: Any) -> FactT:
    """Return the fact with these fields changed.

    Does what `dataclasses.replace` does in about half of its time: this runs for each frame.
    """
    get_values, positions = _POSITIONS[type(fact)]
    values = list(get_values(fact))
    for name, value in changes.items():
        values[positions[name]] = value
    return type(fact)(*values)


def dump(fact: AnyFact) -> str:
    """Return the fact as one line of ASCII JSON.

    The time and default values are left out. ASCII keeps NUL and lone surrogates in agents' text in any database.
    """
    if type(fact) is InputDelta:  # the hot path: nine of ten facts
        return f'{{"type":"input-delta","call_id":{quoted(fact.call_id)},"text":{quoted(fact.text)}}}'
    record: dict[str, Any] = {}
    shared_parts: dict[str, Any] = {}
    get_values, named_defaults = _FIELDS[type(fact)]
    for (name, default), value in zip(named_defaults, get_values(fact), strict=True):
        if value is not default and not (value == default and type(value) is type(default)):
            if name in SHARED:
                shared_parts[name] = value
            else:
                record[name] = {"kind": value.kind, "name": value.name} if type(value) is Actor else value
    return encode_record(record, shared_parts)


def load(text: str, timestamp: float = 0.0) -> AnyFact:
    """Return the fact that `dump` wrote.

    Raises ValueError for an unknown type.
    """
    record = json.loads(text)
    cls = BY_TYPE.get(record.pop("type", ""))
    if cls is None:
        raise ValueError("unknown fact type")
    if "by" in record:
        record["by"] = Actor(**record["by"])
    fact: AnyFact = cls(**record, at=timestamp)
    return fact
