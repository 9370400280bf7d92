"""Finds calls that cannot run as written, and repairs them if there is only one way to do so.

`check` compares a call with the tools that its run offered. `repair` tries once, without side effects or guesses: it
changes only the places that failed, and never selects a more dangerous tool. The result is a new candidate that policy
evaluates again; an approval or grant for the broken call does not cover it. `findings` validates schemas: all
of JSON Schema on the server, a part of it in the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .input_fixes import FindSchemaErrors, SchemaError, fix_finding, format_pointer, strip_separators
from .json_diff import diff
from .json_text import is_same_json
from .tool_kinds import DANGER as DANGER
from .tool_kinds import KINDS, find_kind

_MAX_ROUNDS = 3  # a text that holds an object with an extra key takes two
_MAX_NAMES = 30


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its run announced it. `kind` is the more dangerous of our kind and the agent's.

    `output` is the schema of its results, if declared (`output_schema`).
    """

    name: str
    kind: str = "other"
    schema: Any = None
    output: Any = None

    @classmethod
    def parse(cls, announcement: Mapping[str, Any]) -> Offer | None:
        """Read an announced tool; None without a name.

        Reads the shapes of MCP, AG-UI and the native protocol.
        """
        name = announcement.get("name")
        if not isinstance(name, str) or not name:
            return None
        claimed_kind = announcement.get("kind")
        kinds = [find_kind(name), *([claimed_kind] if claimed_kind in KINDS else [])]
        fields = ("input_schema", "inputSchema", "parameters")
        schema = next((announcement[field] for field in fields if announcement.get(field)), None)
        return cls(name, max(kinds, key=lambda kind: DANGER[kind]), schema, announcement.get("output_schema"))


Offers = Mapping[str, Offer]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the call cannot run: `no_such_tool` or `invalid_input`, and the places."""

    code: str
    tool: str
    findings: tuple[SchemaError, ...] = ()

    @property
    def fingerprint(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """A key that is equal for two calls with the same mistake."""
        return self.code, self.tool, tuple(sorted((error.pointer, error.keyword) for error in self.findings))

    def message(self, offers: Offers) -> str:
        """Describe the trouble for the model.

        Names the code, the errors by place, and the allowed tools.
        """
        if self.code == "no_such_tool":
            text = f"no_such_tool: there is no tool named “{self.tool[:200]}”."
        else:
            places = "; ".join(f"{error.pointer or '(the whole input)'}: {error.message}" for error in self.findings)
            text = f"invalid_input: the input of {self.tool[:200]} does not match its schema. {places}."
        names = list(offers)
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        allowed_tools = f" Allowed tools: {', '.join(names[:_MAX_NAMES])}{more}." if names else ""
        return f"{text}{allowed_tools} Do not repeat this call unchanged."


@dataclass(frozen=True, slots=True)
class Repair:
    """A candidate that replaces the broken call; `method` describes the repair for the card."""

    tool: str
    input: Any
    method: str


def parse_offers(announced_tools: Iterable[Any]) -> dict[str, Offer]:
    """Return the announced tools by name.

    Of two with one name, the later.
    """
    parsed_offers = (Offer.parse(each) for each in announced_tools if isinstance(each, dict))
    return {offer.name: offer for offer in parsed_offers if offer is not None}


def check(
    tool: str, value: Any, offers: Offers, *, findings: FindSchemaErrors, has_input: bool = True
) -> Trouble | None:
    """Return why the call cannot run.

    None if it can, or without announced tools.
    """
    if not offers:
        return None
    offer = offers.get(tool)
    if offer is None:
        return Trouble("no_such_tool", tool)
    if not has_input:
        return Trouble("invalid_input", tool, (SchemaError("", "json", "the input is not valid JSON"),))
    errors = findings(offer.schema, value)
    return Trouble("invalid_input", tool, tuple(errors)) if errors else None


def repair(
    tool: str, value: Any, offers: Offers, *, findings: FindSchemaErrors, has_input: bool = True
) -> Repair | None:
    """Return the repair, None unless exactly one is possible."""
    methods: list[str] = []
    trouble = check(tool, value, offers, findings=findings, has_input=has_input)
    if trouble is not None and trouble.code == "no_such_tool":
        intended_tool = _find_intended_tool(tool, offers)
        if intended_tool is None:
            return None
        methods.append("tool name")
        tool, trouble = intended_tool, check(intended_tool, value, offers, findings=findings, has_input=has_input)
    if trouble is not None:
        result = _repair_input(value, trouble.findings, offers[tool].schema, findings) if has_input else None
        if result is None:
            return None
        value, steps = result
        methods += steps
    return Repair(tool, value, ", ".join(methods)) if methods else None


def fits(original: Any, result: Any, errors: Iterable[SchemaError]) -> bool:
    """Return whether the two differ only at the invalid places."""
    changes = diff(original, result)
    allowed_places = [place for error in errors for place in _places(error)]
    return bool(changes) and all(
        any(change.pointer == place or change.pointer.startswith(f"{place}/") for place in allowed_places)
        for change in changes
    )


# ---------------------------------------------------------------- names


def _find_intended_tool(tool: str, offers: Offers) -> str | None:
    """Return the only offered tool with a similar name that is not more dangerous.

    Case, - and _, and a prefix are ignored.
    """
    spellings = _fold_name(tool)
    if not spellings:
        return None
    matches = [name for name in offers if spellings & _fold_name(name)]
    if len(matches) != 1:
        return None
    return matches[0] if DANGER[offers[matches[0]].kind] <= DANGER[find_kind(tool)] else None


def _fold_name(name: str) -> set[str]:
    """Return the folded name with and without its prefix; nothing for names beyond ASCII."""
    if not name.isascii() or len(name) > 200:
        return set()
    plain = name.strip().lower()
    bare = plain
    for mark in ("__", ".", ":", "/"):
        bare = bare.rpartition(mark)[2]
    return {text for text in (strip_separators(plain), strip_separators(bare)) if text}


# ---------------------------------------------------------------- inputs


def _repair_input(
    value: Any, failed_errors: tuple[SchemaError, ...], against: Any, findings: FindSchemaErrors
) -> tuple[Any, list[str]] | None:
    """Return the result value and the repair steps; None if it still does not fit.

    No step removes a value: a field that the schema does not allow is renamed, or the input is not repaired.
    """
    current, steps, open_findings, places = value, list[str](), list(failed_errors), list(failed_errors)
    for _ in range(_MAX_ROUNDS):
        before = current
        for finding in open_findings:
            current, method, new_names = fix_finding(current, finding, against)
            places += [SchemaError(finding.pointer, "required", "", (), new_names)] if new_names else []
            steps += [method] if method and method not in steps else []
        open_findings = findings(against, current)
        if not open_findings:
            return (current, steps) if fits(value, current, places) else None
        if is_same_json(before, current):
            return None
    return None


def _places(finding: SchemaError) -> list[str]:
    names = {"additionalProperties": finding.unexpected, "required": finding.missing}.get(finding.keyword)
    if names is None:
        return [finding.pointer]
    return [finding.pointer + format_pointer([name]) for name in names]
