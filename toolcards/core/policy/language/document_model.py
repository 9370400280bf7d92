"""The shape of a policy document, as pydantic models. Their docstrings are the reference in docs/policy.md."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from toolcards.core.policy.matching.conditions import parse_pointer
from toolcards.core.policy.matching.matchers import MATCHERS

MAX_RULES = 5_000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _parse_duration(value: Any) -> Any:
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,7})([smhd])", value, re.ASCII)
        if match is None:
            raise ValueError("expects a duration such as 30s, 15m, 2h or 1d")
        return int(match[1]) * _UNITS[match[2]]
    return value


def _wrap_in_list(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


def _check_time_of_day(value: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00", value, re.ASCII):
        raise ValueError("expects a time of day such as 08:00")
    return value


def _check_time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, LookupError):  # LookupError: ZoneInfoNotFoundError
        raise ValueError("is not a time zone such as Europe/Berlin") from None
    return value


def _parse_moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("expects a time with its zone, such as 2027-01-31T12:00:00Z")
    return moment.timestamp()


def _check_pointer(value: str) -> str:
    parse_pointer(value)
    return value


def _check_operator(value: str) -> str:
    if value not in MATCHERS:
        raise ValueError(f"is not an operator; there are {', '.join(MATCHERS)}")
    return value


Text = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[
    list[Name],
    BeforeValidator(_wrap_in_list, json_schema_input_type=Name | list[Name]),
    Field(min_length=1, max_length=500),
]
Seconds = Annotated[
    int,
    BeforeValidator(_parse_duration, json_schema_input_type=int | Annotated[str, Field(pattern="^[0-9]{1,7}[smhd]$")]),
    Field(ge=1, le=31 * 86400),
]
Moment = Annotated[float, Field(ge=1, lt=253_402_300_800)]  # until the end of the year 9999
Path = Annotated[str, AfterValidator(_check_pointer), Field(max_length=500)]
TimeOfDay = Annotated[str, AfterValidator(_check_time_of_day)]
KindName = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
EffectName = Literal["allow", "ask", "deny"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False, use_attribute_docstrings=True)


class ArgumentDoc(_Strict):
    """A condition on values of the input."""

    path: Path
    """JSON Pointer of the value, such as `/command`; `*` matches every member (`/files/*`).

    "" is the whole input, or for `cmd` and `effect` the command wherever the tool takes it.
    """
    op: Annotated[str, AfterValidator(_check_operator)]
    """The operator; see [operators](#operators)."""
    value: Any = None
    """What the operator compares with."""
    quant: Literal["any", "all"] | None = None
    """With `*` in the path: whether `any` or `all` values have to match. Default: `any` to deny and ask, else `all`."""


class WhenDoc(_Strict):
    """A window of time."""

    tz: Annotated[str, AfterValidator(_check_time_zone)] = "UTC"
    """Time zone, such as `Europe/Berlin`."""
    days: Annotated[list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]], Field(min_length=1)] | None = None
    """Days of the week. Default: every day."""
    start: TimeOfDay = Field("00:00", alias="from")
    """Start of the window, as `HH:MM`."""
    end: TimeOfDay = Field("24:00", alias="to")
    """End of the window, as `HH:MM`. If it is before `from`, the window spans midnight."""


class RateDoc(_Strict):
    """More than `over` calls of the tool within `per`. All spellings of a tool's name count, on any MCP server."""

    over: Annotated[int, Field(ge=0, le=1_000_000)]
    """The condition holds for the calls beyond this number."""
    per: Seconds
    """Length of the period: seconds, or a text such as `15m`."""
    scope: Literal["run", "agent", "source", "user", "all"] = "run"
    """Whose calls are counted."""


class ClauseDoc(_Strict):
    """Conditions, all of which must hold; of a list, one is enough."""

    tool: Names | None = None
    """Names of tools, with `*` for any text; see [names](#names)."""
    kind: (
        Annotated[
            list[KindName],
            BeforeValidator(_wrap_in_list, json_schema_input_type=KindName | list[KindName]),
            Field(min_length=1),
        ]
        | None
    ) = None
    """Kinds of tools; see [tools and their kinds](#tools-and-their-kinds)."""
    source: Names | None = None
    """Names of MCP servers that provide the tool."""
    agent: Names | None = None
    """Names of agents."""
    agent_scope: Literal["leaf", "any_in_path"] | None = None
    """Whether `agent` is compared with the acting agent (`leaf`), or with each agent above it too (`any_in_path`)."""
    user: Names | None = None
    """The person that the agent works for: user names, or `group:` and the name of a group."""
    env: Names | None = None
    """Environments, as agent keys and requests name them."""
    run: Names | None = None
    """Names of runs."""
    project: Names | None = None
    """Folders of projects in which runs work, as absolute paths."""
    args: (
        Annotated[
            list[ArgumentDoc],
            BeforeValidator(_wrap_in_list, json_schema_input_type=ArgumentDoc | list[ArgumentDoc]),
            Field(max_length=50),
        ]
        | None
    ) = None
    """Conditions on the input."""
    when: WhenDoc | None = None
    """A window of time."""
    rate: RateDoc | None = None
    """A limit of calls in a period."""


class EscalateDoc(_Strict):
    """Who is asked too if no one answers for a while."""

    after: Seconds
    """Time without an answer: seconds, or a text such as `10m`."""
    to: Name
    """Who can answer from then on: a user name, or `group:` and the name of a group."""


class AskDoc(_Strict):
    """The terms of an approval."""

    approvers: Names | None = None
    """Who can answer: user names, or `group:` and the name of a group. Default: everyone who may vote."""
    quorum: Annotated[int, Field(ge=1, le=20)] = 1
    """How many approvals are required. A vote counts as long as its person may vote."""
    deny_quorum: Annotated[int, Field(ge=1, le=20)] = 1
    """How many denials are required."""
    allow_requester: bool | None = None
    """Whether the person that the agent works for can answer."""
    decide_ttl: Seconds | None = None
    """Time to answer. Default: `TOOLCARDS_DECIDE_TTL`."""
    use_ttl: Seconds | None = None
    """Time to use the approval. Default: five minutes."""
    reason: Literal["optional", "on_deny", "always"] | None = None
    """Whether people have to give a reason."""
    reauth: bool = False
    """Whether people have to have signed in within the last minutes."""
    editable: list[Path] | None = None
    """JSON Pointers of the values that people can change before they approve."""
    grants: list[Literal["once", "run", "until"]] | None = None
    """Which standing approvals people can give with the answer."""
    escalate: list[EscalateDoc] | None = None
    """Who is asked when no answer comes."""


class ReviewerDoc(_Strict):
    """Who answers before people; see [a reviewer before people](#a-reviewer-before-people)."""

    kind: Literal["command", "webhook", "model"]
    """`command` runs on the server, `webhook` is a signed request, `model` is a language model."""
    mode: Literal["shadow", "enforce"] = "shadow"
    """`shadow` only records the answers, next to those of people. `enforce` lets them count."""
    timeout: Annotated[Seconds, Field(le=120)] = 20
    """Time to answer: seconds, or a text such as `20s`; 120 s or less."""
    command: Name | None = None
    """Name of a command in `TOOLCARDS_REVIEWER_COMMANDS`."""
    url: Annotated[str, Field(max_length=2_000, pattern=r"^https?://[!-~]+$")] | None = None
    """Address of the webhook or of the model's API."""
    api: Literal["openai", "anthropic"] | None = None
    """The API of the model."""
    model: Name | None = None
    """Name of the model."""
    prompt: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    """What the model has to do. Default: a prompt that the Reviewers page shows."""


class RuleDoc(_Strict):
    """One rule."""

    id: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:\-]+$")] | None = None
    """Id of the rule. Default: derived from its content."""
    effect: EffectName
    """What happens to a matching call."""
    mode: Literal["enforce", "monitor"] = "enforce"
    """`monitor` only records what the rule would have decided."""
    enabled: bool = True
    """Whether the rule counts."""
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    """Which notifications are sent and how rules are sorted. `critical` approvals can only be given once."""
    expires_at: Annotated[Moment | None, BeforeValidator(_parse_moment, json_schema_input_type=Moment | str | None)] = (
        None
    )
    """ISO 8601 time with zone after which the rule does not count."""
    match: ClauseDoc = ClauseDoc()
    """The conditions; all of them have to hold. Without conditions the rule matches every call."""
    unless: (
        Annotated[
            list[ClauseDoc],
            BeforeValidator(_wrap_in_list, json_schema_input_type=ClauseDoc | list[ClauseDoc]),
            Field(max_length=2_000),
        ]
        | None
    ) = None
    """Exceptions: if one of them holds, the rule does not match."""
    ask: AskDoc | None = None
    """How the answer has to come about, for ask rules."""
    review: Name | None = None
    """Name of the reviewer that is asked before people, for ask rules."""
    deny: None = None
    """No fields yet."""
    public_reason: Text | None = None
    """The reason that agents and people read."""
    suggest: Text | None = None
    """What the agent can do instead; agents read it after a denial."""


class PolicyDocument(_Strict):
    """The whole policy. `default_ask` has the terms of approvals that the defaults require, not a rule."""

    model_config = ConfigDict(title="Document")

    v: Literal[1] = 1
    """Version of the policy language."""
    default: EffectName = "ask"
    """What happens to calls that no rule matches."""
    unknown_tool: EffectName | None = None
    """The least strict effect for calls of tools that the agent has not announced."""
    changed_tool: EffectName | None = None
    """The least strict effect for calls of tools whose schema or server has changed."""
    agent_questions: Literal["people", "agent"] = "people"
    """Who answers what a coding agent asks on its own: `people` here or at the agent, or only there (`agent`)."""
    overridable: bool = False
    """Accepted for older documents; has no effect."""
    default_ask: AskDoc | None = None
    """The terms of approvals that no rule asks for."""
    default_review: Name | None = None
    """Name of the reviewer of calls that no rule matches."""
    reviewers: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.\-]+$")], ReviewerDoc],
        Field(max_length=50),
    ] = {}
    """The reviewers by name."""
    rules: Annotated[list[RuleDoc], Field(max_length=MAX_RULES)] = []
    """The rules; their order has no effect."""
