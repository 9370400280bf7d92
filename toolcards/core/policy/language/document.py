"""The policy document, as people write it, checked strictly and compiled: `parse` is the only door.

Unknown fields, types, operators and effects are refused, each with a JSON Pointer; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from toolcards.client.common.canonical_json import NotCanonical, digest, escape
from toolcards.core.policy.language import compiler
from toolcards.core.policy.language.description import sentence
from toolcards.core.policy.matching.conditions import steps_of
from toolcards.core.policy.matching.matchers import MATCHERS
from toolcards.core.policy.rule import TERMS, AskTerms, Clause, Effect, Rule
from toolcards.core.policy.rule_set import BUILT_IN, Policy

__all__ = ["Finding", "PolicyError", "parse", "pattern", "schema", "sentence"]

MAX_RULES = 5_000
MAX_NODES = 500_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a document: where (a JSON Pointer), which kind of thing, and what to tell its author.

    `grave` findings of the lint mean that the policy must not become active.
    """

    pointer: str
    code: str
    message: str
    grave: bool = False


class PolicyError(ValueError):
    """The document is refused; `findings` says where and why, at least once."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("; ".join(f"{found.pointer or '/'}: {found.message}" for found in findings[:5]))
        self.findings = findings


# ---------------------------------------------------------------- the shape

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(given: Any) -> Any:
    if isinstance(given, str):
        found = re.fullmatch(r"([0-9]{1,7})([smhd])", given, re.ASCII)
        if found is None:
            raise ValueError("expects a duration such as 30s, 15m, 2h or 1d")
        return int(found[1]) * _UNITS[found[2]]
    return given


def _several(given: Any) -> Any:
    return [given] if isinstance(given, str | dict) else given


def _minutes(given: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00", given, re.ASCII):
        raise ValueError("expects a time of day such as 08:00")
    return given


def _zone(given: str) -> str:
    try:
        ZoneInfo(given)
    except (ValueError, OSError, LookupError):  # LookupError: ZoneInfoNotFoundError
        raise ValueError("is not a time zone such as Europe/Berlin") from None
    return given


def _moment(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    moment = datetime.fromisoformat(given)
    if moment.tzinfo is None:
        raise ValueError("expects a time with its zone, such as 2027-01-31T12:00:00Z")
    return moment.timestamp()


def _path(given: str) -> str:
    steps_of(given)
    return given


def _operator(given: str) -> str:
    if given not in MATCHERS:
        raise ValueError(f"is not an operator; there are {', '.join(MATCHERS)}")
    return given


Text = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], BeforeValidator(_several), Field(min_length=1, max_length=500)]
Seconds = Annotated[int, BeforeValidator(_seconds), Field(ge=1, le=31 * 86400)]
Moment = Annotated[float, Field(ge=1, lt=253_402_300_800)]  # until the end of the year 9999
Path = Annotated[str, AfterValidator(_path), Field(max_length=500)]
TimeOfDay = Annotated[str, AfterValidator(_minutes)]
KindName = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
EffectName = Literal["allow", "ask", "deny"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False)


class ArgumentDoc(_Strict):
    """A question about a value of the input."""

    path: Path
    op: Annotated[str, AfterValidator(_operator)]
    value: Any = None
    quant: Literal["any", "all"] | None = None


class WhenDoc(_Strict):
    """A window of time."""

    tz: Annotated[str, AfterValidator(_zone)] = "UTC"
    days: Annotated[list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]], Field(min_length=1)] | None = None
    start: TimeOfDay = Field("00:00", alias="from")
    end: TimeOfDay = Field("24:00", alias="to")


class RateDoc(_Strict):
    """More than `over` calls of the tool within `per`."""

    over: Annotated[int, Field(ge=0, le=1_000_000)]
    per: Seconds
    scope: Literal["run", "agent", "source", "user", "all"] = "run"


class ClauseDoc(_Strict):
    """Conditions, all of which have to hold; of a list, one is enough."""

    tool: Names | None = None
    kind: Annotated[list[KindName], BeforeValidator(_several), Field(min_length=1)] | None = None
    source: Names | None = None
    agent: Names | None = None
    agent_scope: Literal["leaf", "any_in_path"] | None = None
    user: Names | None = None
    env: Names | None = None
    run: Names | None = None
    args: Annotated[list[ArgumentDoc], BeforeValidator(_several), Field(max_length=50)] | None = None
    when: WhenDoc | None = None
    rate: RateDoc | None = None


class EscalateDoc(_Strict):
    """Who is told when nobody answered for a while."""

    after: Seconds
    to: Name


class AskDoc(_Strict):
    """How a person's answer must come about."""

    approvers: Names | None = None
    quorum: Annotated[int, Field(ge=1, le=20)] = 1
    deny_quorum: Annotated[int, Field(ge=1, le=20)] = 1
    allow_requester: bool | None = None
    decide_ttl: Seconds | None = None
    use_ttl: Seconds | None = None
    reason: Literal["optional", "on_deny", "always"] | None = None
    reauth: bool = False
    editable: list[Path] | None = None
    grants: list[Literal["once", "run", "until"]] | None = None
    escalate: list[EscalateDoc] | None = None


class RuleDoc(_Strict):
    """One rule."""

    id: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:\-]+$")] | None = None
    effect: EffectName
    mode: Literal["enforce", "monitor"] = "enforce"
    enabled: bool = True
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    expires_at: Annotated[Moment | None, BeforeValidator(_moment)] = None
    match: ClauseDoc = ClauseDoc()
    unless: Annotated[list[ClauseDoc], BeforeValidator(_several), Field(max_length=200)] | None = None
    ask: AskDoc | None = None
    deny: None = None
    public_reason: Text | None = None
    suggest: Text | None = None


class Document(_Strict):
    """The whole policy. `default_ask`: how questions are answered that no rule asks, but the default or its like."""

    v: Literal[1] = 1
    default: EffectName = "ask"
    unknown_tool: EffectName | None = None
    changed_tool: EffectName | None = None
    overridable: bool = False
    default_ask: AskDoc | None = None
    rules: Annotated[list[RuleDoc], Field(max_length=MAX_RULES)] = []


# ---------------------------------------------------------------- the door


def parse(document: object, *, version: int = 0, ask: AskTerms = TERMS) -> Policy:
    """Return the compiled policy, or raise PolicyError with every finding. `ask` holds the terms rules leave open."""
    try:
        sha256 = digest(document, max_nodes=MAX_NODES)
        doc = Document.model_validate(document)
    except NotCanonical as wrong:
        raise PolicyError([Finding(wrong.pointer, "not_json", wrong.why)]) from None
    except ValidationError as wrong:
        raise PolicyError([_finding(error) for error in wrong.errors(include_url=False)]) from None
    findings: list[Finding] = []
    rules = tuple(_rules(doc, ask, findings))
    if findings:
        raise PolicyError(findings)
    return Policy(
        version=version,
        sha256=sha256,
        default=Effect(doc.default),
        unknown_tool=Effect(doc.unknown_tool) if doc.unknown_tool else None,
        changed_tool=Effect(doc.changed_tool) if doc.changed_tool else None,
        rules=rules,
        overridable=doc.overridable,
        ask=compiler.terms_of(doc.default_ask, ask.severity, ask),
        document=document if isinstance(document, dict) else {},
    )


def pattern(args: object) -> Clause:
    """Return a grant's pattern, compiled from the `args` of a rule; raise PolicyError if it is not right."""
    try:
        doc = ClauseDoc.model_validate({"args": args})
        if not doc.args:
            raise PolicyError([Finding("/args", "value", "Say at least one condition.")])
        return compiler.clause(doc, wide=False)
    except ValidationError as wrong:
        raise PolicyError([_finding(error) for error in wrong.errors(include_url=False)]) from None
    except compiler.BadValue as wrong:
        raise PolicyError([Finding(wrong.pointer, wrong.code, wrong.message)]) from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the document, for editors."""
    return Document.model_json_schema(by_alias=True)


def _rules(doc: Document, ask: AskTerms, findings: list[Finding]) -> Iterator[Rule]:
    seen: set[str] = set()
    for number, rule in enumerate(doc.rules):
        plain = rule.model_dump(mode="json", by_alias=True, exclude_unset=True)
        name = rule.id or _made_up(plain, seen)
        if name in seen:
            findings.append(Finding(f"/rules/{number}/id", "duplicate_id", f"Another rule is called {name} too."))
        if name in BUILT_IN:
            findings.append(Finding(f"/rules/{number}/id", "reserved_id", f"{name} is a name we use ourselves."))
        seen.add(name)
        try:
            yield compiler.rule(rule, name, digest(plain), ask)
        except compiler.BadValue as wrong:
            findings.append(Finding(f"/rules/{number}{wrong.pointer}", wrong.code, wrong.message))


def _made_up(plain: dict[str, Any], seen: set[str]) -> str:
    """Return a name for a rule without one: the same content gets the same name."""
    name = "rul_" + digest(plain)[:10]
    copies = sum(1 for other in seen if other == name or other.startswith(name + "_"))
    return f"{name}_{copies + 1}" if copies else name


_CODES = {
    "extra_forbidden": ("unknown_field", "There is no such field here."),
    "missing": ("missing", "This field is needed."),
}


def _finding(error: ErrorDetails) -> Finding:
    where = "".join(f"/{escape(str(step))}" for step in error["loc"])
    code, message = _CODES.get(error["type"], ("", ""))
    if not code:
        code = "unknown_operator" if where.endswith("/op") else "value" if error["type"] == "value_error" else "type"
        message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "literal_error":
        code = "unknown_value"
    return Finding(where, code, message)
