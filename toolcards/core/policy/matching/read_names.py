"""Whether a tool that no catalog lists is named as one that only reads (`tool_only` in `changes/limited_tools.py`).

The name begins with a word for reading (`get_order`), names no secret (`get_api_key`), and no argument is a program.
"""

from __future__ import annotations

import re
from typing import Any

from toolcards.core.policy.request import PolicyRequest

VERBS = (
    "get", "list", "find", "search", "read", "describe", "view", "retrieve", "show", "count", "lookup", "check",
    "validate",
)  # fmt: skip
_SECRET_WORDS = (
    "secret", "password", "passphrase", "passwd", "token", "credential", "key", "env", "private", "cookie", "session",
)  # fmt: skip
_NAME = re.compile(rf"(?:{'|'.join(VERBS)})_(?!in(?:_|$)|out(?:_|$)|and_|or_)[a-z][a-z0-9_]*")
_SECOND_STEP = re.compile(r"_(?:and|then|or)_")
# Arguments whose text is itself a program: what one does says nothing about another one.
_PROGRAMS = frozenset({"sql", "statement", "statements", "code", "script", "command", "commands", "cmd", "cli_command"})
_LANGUAGES = frozenset({
    "sql", "script", "javascript", "python", "bash", "shell", "cypher", "gremlin", "pipeline", "mutation", "argv",
})  # fmt: skip
_CODE = re.compile(r"[A-Z0-9]{2,}(?:-[A-Z0-9]+)*", re.ASCII)
_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_VERBS_OF_QUERIES = (
    "select|insert|update|delete|create|alter|drop|truncate|grant|revoke|with|merge(?!-)|call|explain|replace\\s+into|vacuum"
    "|exec|execute|copy|attach|pragma|mutation"
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_QUERY = re.compile(
    rf"(?:^|;)[^\w\"'/;-]*(?:(?:{_VERBS_OF_QUERIES})\b\s*\S|do\s*\$|match\s*\()", re.IGNORECASE
)  # behind blanks, brackets, a byte order mark; a verb alone is a word


def is_program(key: str, value: Any) -> bool:
    """Return whether an argument is or holds a program, such as SQL."""
    if key == "code" and isinstance(value, str) and _CODE.fullmatch(value):  # of a voucher, say
        return False
    if key.lower() in _PROGRAMS or not _LANGUAGES.isdisjoint(word.lower() for word in _KEY_WORD.findall(key)):
        return True
    if isinstance(value, dict):
        return any(is_program(name, part) for name, part in value.items())
    if isinstance(value, list):
        return any(is_program("", part) for part in value)
    return isinstance(value, str) and _QUERY.search(_COMMENT.sub(" ", value)) is not None


def names_secret(name: str) -> bool:
    """Return whether the name of a tool names a secret."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def reads_by_name(request: PolicyRequest) -> bool:
    """Return whether the tool's name says that it only reads.

    Kinds of the catalog, and promises of a change (`get_and_delete`), count more than the name.
    """
    name = request.tool.removeprefix(request.names.qualifier) if request.tool.startswith("mcp__") else request.tool
    is_plain = _NAME.fullmatch(name) is not None and not _SECOND_STEP.search(name)
    arguments = request.input if isinstance(request.input, dict) else {}
    runs_program = any(is_program(key, value) for key, value in arguments.items())
    return is_plain and not names_secret(name) and request.kinds == ("other",) and not runs_program
