"""Finds secrets in objects and lists by what is next to them: other members, the item before, the schema of a field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcards.core.redaction.sensitive_names import classify_name, classify_value_member, is_secret_value

MAX_PAIR_MEMBERS = 24  # of an object that is a pair of a name and a value, with more about them
# The private members of a JSON Web Key; `k` is the key itself of a symmetric one.
_JWK = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"}
)
# The types of fields of a JSON Schema, and its members that hold values of the field.
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_VALUES = ("default", "const", "enum", "examples")


def list_secret_members(members: dict[str, Any]) -> tuple[str, ...]:
    """Return the members whose values are secret because of the object's type.

    The object is a pair such as `{"name": "Authorization", "value": …}`, a JSON Web Key, or a Kubernetes Secret.
    """
    if "kty" in members:
        return tuple(_JWK & members.keys())
    if members.get("kind") == "Secret":
        return ("data", "stringData")
    if not 1 < len(members) <= MAX_PAIR_MEMBERS:
        return ()
    roles = {name: classify_value_member(name) for name in members if len(name) <= 20}
    names = [members[name] for name, role in roles.items() if role == "name" and type(members[name]) is str]
    if not any(len(name) < 80 and classify_name(name) for name in names):
        return ()
    strong = any(classify_name(name) == "strong" for name in names)
    values = [name for name, role in roles.items() if role == "value" or (role == "words" and strong)]
    return tuple(name for name in values if any(is_secret_value(label, members[name]) for label in names))


def announces_secret(word: str, index: int, items: list[Any]) -> bool:
    """Return whether the next item is a secret.

    Examples: `["--password", …]` in a command, `["Cookie", …]` in a list of headers.
    """
    if not 2 < len(word) < 80 or "=" in word or " " in word:
        return False
    if word.startswith("-"):
        return bool(classify_name(word.lstrip("-")))
    following = items[index + 1] if index + 1 < len(items) else None
    if type(following) is not str or following.lower() in _SECRET_HEADERS:
        return False
    if word.lower() in _SECRET_HEADERS:  # a list of alternating names and values, or [name, value, …]
        return index == 0 or (index % 2 == 0 and len(items) % 2 == 0)
    return len(items) == 2 and index == 0 and bool(classify_name(word))


def mask_schemas(fields: dict[str, Any], mask: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the `properties` of a JSON Schema with secrets masked.

    The name of a field makes its values secret, not its description. `mask` masks a value of any kind.
    """
    if (names := list(mask(dict.fromkeys(fields)))) != list(fields):  # a name is a secret
        return {new: mask({name: schema})[new] for new, (name, schema) in zip(names, fields.items(), strict=True)}
    result = {name: _mask_schema(name, schema, mask) for name, schema in fields.items()}
    return fields if all(map(lambda old, new: old is new, fields.values(), result.values())) else result


def _mask_schema(name: str, schema: Any, mask: Callable[[Any], Any]) -> Any:
    if type(schema) is not dict or schema.get("type") not in _TYPES:
        return _mask_member(name, schema, mask)
    description = mask({key: part for key, part in schema.items() if key not in _VALUES})
    values = {key: _mask_member(name, schema[key], mask) for key in _VALUES if key in schema}
    result = description | values
    return schema if result == schema else result


def _mask_member(name: str, value: Any, mask: Callable[[Any], Any]) -> Any:
    """Return the value as it is masked below this name."""
    return next(iter(mask({name: value}).values()))
