"""A call that cannot run as written: found out before anything is decided, and mended where there is only one way.

`check` compares a call with the tools that its run offered. `mend` tries once: no side effects, no guessing, only
the places that failed may change, never onto a tool that may do more harm. What it returns is a new candidate and
is judged afresh; an approval or grant for the broken call does not count for it. `findings` reads schemas: the server
has all of JSON Schema, the client what the standard library allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .json_diff import diff
from .json_text import same
from .schema_errors import Finding, Findings, escaped
from .tool_kinds import DANGER as DANGER
from .tool_kinds import KINDS, kind_of

_ROUNDS = 3  # a text that holds an object which has a key too many takes two
_NAMES_TOLD = 30


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its run announced it. `kind` is the more dangerous of what we and the agent think it is.

    `output` is the schema of its results, where one was declared (`output_schema`).
    """

    name: str
    kind: str = "other"
    schema: Any = None
    output: Any = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Offer | None:
        """Return the announced tool, in the words of MCP, AG-UI or our own; None without a name."""
        name = said.get("name")
        if not isinstance(name, str) or not name:
            return None
        claimed = said.get("kind")
        kinds = [kind_of(name), *([claimed] if claimed in KINDS else [])]
        given = next((said[word] for word in ("input_schema", "inputSchema", "parameters") if said.get(word)), None)
        return cls(name, max(kinds, key=lambda kind: DANGER[kind]), given, said.get("output_schema"))


Offers = Mapping[str, Offer]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the call cannot run: `no_such_tool` or `invalid_input`, and where."""

    code: str
    tool: str
    findings: tuple[Finding, ...] = ()

    @property
    def fingerprint(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What makes two troubles the same mistake."""
        return self.code, self.tool, tuple(sorted((found.pointer, found.keyword) for found in self.findings))

    def message(self, offers: Offers) -> str:
        """Return what the model is told: the code, every place with its fault, and what it may use instead."""
        if self.code == "no_such_tool":
            said = f"no_such_tool: there is no tool named “{self.tool[:200]}”."
        else:
            places = "; ".join(f"{found.pointer or '(the whole input)'}: {found.message}" for found in self.findings)
            said = f"invalid_input: the input of {self.tool[:200]} does not fit its schema. {places}."
        names = list(offers)
        more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
        told = f" Allowed tools: {', '.join(names[:_NAMES_TOLD])}{more}." if names else ""
        return f"{said}{told} Do not repeat this call unchanged."


@dataclass(frozen=True, slots=True)
class Mended:
    """A candidate in place of the broken call; `method` names what was done, in words for the card."""

    tool: str
    input: Any
    method: str


def offers(announced: Iterable[Any]) -> dict[str, Offer]:
    """Return the announced tools by name; a name that comes again replaces the earlier one."""
    found = (Offer.of(said) for said in announced if isinstance(said, dict))
    return {offer.name: offer for offer in found if offer is not None}


def check(tool: str, value: Any, offered: Offers, *, findings: Findings, has_input: bool = True) -> Trouble | None:
    """Return what is wrong with the call, None if nothing is, or if nothing is known of this run's tools."""
    if not offered:
        return None
    offer = offered.get(tool)
    if offer is None:
        return Trouble("no_such_tool", tool)
    if not has_input:
        return Trouble("invalid_input", tool, (Finding("", "json", "the input is not valid JSON"),))
    found = findings(offer.schema, value)
    return Trouble("invalid_input", tool, tuple(found)) if found else None


def mend(tool: str, value: Any, offered: Offers, *, findings: Findings, has_input: bool = True) -> Mended | None:
    """Return the call as it must have been meant, None where there is no such thing or more than one."""
    methods: list[str] = []
    trouble = check(tool, value, offered, findings=findings, has_input=has_input)
    if trouble is not None and trouble.code == "no_such_tool":
        meant = _meant(tool, offered)
        if meant is None:
            return None
        methods.append("tool name")
        tool, trouble = meant, check(meant, value, offered, findings=findings, has_input=has_input)
    if trouble is not None:
        fixed = _fixed(value, trouble.findings, offered[tool].schema, findings) if has_input else None
        if fixed is None:
            return None
        value, done = fixed
        methods += done
    return Mended(tool, value, ", ".join(methods)) if methods else None


def fits(original: Any, result: Any, found: Iterable[Finding]) -> bool:
    """Return whether the two differ, and only under the places that failed; for results that a model made, too."""
    changes = diff(original, result)
    allowed = [place for finding in found for place in _places(finding)]
    return bool(changes) and all(
        any(change.pointer == place or change.pointer.startswith(f"{place}/") for place in allowed)
        for change in changes
    )


# ---------------------------------------------------------------- names


def _meant(tool: str, offered: Offers) -> str | None:
    """The one offered tool of that name, but for case, - and _, or a prefix; never one that may do more harm."""
    wanted = _folded(tool)
    if not wanted:
        return None
    alike = [name for name in offered if wanted & _folded(name)]
    if len(alike) != 1:
        return None
    return alike[0] if DANGER[offered[alike[0]].kind] <= DANGER[kind_of(tool)] else None


def _folded(name: str) -> set[str]:
    """The name without case, - and _, whole and without its prefix; nothing for names beyond ASCII."""
    if not name.isascii() or len(name) > 200:
        return set()
    plain = name.strip().lower()
    bare = plain
    for mark in ("__", ".", ":", "/"):
        bare = bare.rpartition(mark)[2]
    return {text for text in (_squeezed(plain), _squeezed(bare)) if text}


def _squeezed(name: str) -> str:
    return name.replace("-", "").replace("_", "")


# ---------------------------------------------------------------- inputs


def _fixed(value: Any, found: tuple[Finding, ...], against: Any, findings: Findings) -> tuple[Any, list[str]] | None:
    """The value with what failed put right, and how; None if it does not fit even so."""
    current, done, open_findings = value, list[str](), list(found)
    for _ in range(_ROUNDS):
        before = current
        for finding in open_findings:
            fix = _FIXES.get(finding.keyword)
            if fix is not None:
                current, method = fix(current, finding)
                done += [method] if method and method not in done else []
        open_findings = findings(against, current)
        if not open_findings:
            return (current, done) if fits(value, current, found) else None
        if same(before, current):
            return None
    return None


def _parsed(value: Any, finding: Finding) -> tuple[Any, str]:
    """A text that holds an object or a list stands for it, an empty one for an empty object."""
    text = _at(value, finding.pointer)
    if not isinstance(text, str):
        return value, ""
    inner = _read(text) if text.strip() else {}
    if not isinstance(inner, (dict, list)):
        return value, ""
    return _with(value, _steps(finding.pointer), inner), "JSON inside a text" if text.strip() else "empty input"


def _read(text: str) -> Any:
    """The JSON in the text; None for what can be read in two ways, such as a name given twice."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _dropped(value: Any, finding: Finding) -> tuple[Any, str]:
    """Names that the schema closes out go."""
    inside = _at(value, finding.pointer)
    if not isinstance(inside, dict):
        return value, ""
    kept = {name: item for name, item in inside.items() if name not in finding.unexpected}
    return _with(value, _steps(finding.pointer), kept), "unknown fields dropped"


_FIXES = {"type": _parsed, "additionalProperties": _dropped}


def _places(finding: Finding) -> list[str]:
    named = {"additionalProperties": finding.unexpected, "required": finding.missing}.get(finding.keyword)
    if named is None:
        return [finding.pointer]
    return [finding.pointer + escaped([name]) for name in named]


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(value: Any, pointer: str) -> Any:
    for step in _steps(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _with(value: Any, steps: list[str], new: Any) -> Any:
    """A copy of the value with that place replaced."""
    if not steps:
        return new
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        return {**value, first: _with(value.get(first), rest, new)}
    return [_with(item, rest, new) if str(index) == first else item for index, item in enumerate(value)]
