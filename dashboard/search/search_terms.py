"""The terms of a search: what each word of the query asks of a call, as a queryset and as a question to one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, NullIf, StrIndex
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan
from django.utils import timezone

from dashboard.cards import labels
from dashboard.search.touched_files import list_touched_files, names_file
from toolcards.core.calls.card import KINDS, ToolCallState
from toolcards.core.risk.assessment import LEVELS, assess_call_risk
from toolcards.models import Approval, ToolCall

NO_RESULT = "no-result"  # calls that ended with their run, with an unknown outcome
_TOKEN = re.compile(
    r'(?P<sign>-?)(?P<name>[a-z]+):(?P<value>"[^"]*"|\S*)'
    r"|(?P<range>\d{1,2}:\d{2}-\d{1,2}:\d{2})(?=\s|$)"
    r'|"[^"]+"(?=\s|$)|\S+'
)
_AGE = re.compile(r"(\d{1,5})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
# As `ToolCall.agent_name`.
_AGENT_NAME = Coalesce(NullIf("agent", Value("")), NullIf("run__agent", Value("")), "run__source__name")
_STARTED_AT = Coalesce("started_at", "requested_at", "finished_at")
STATE_WORDS = {label.word.lower().replace(" ", "-"): str(state) for state, label in labels.STATE_LABELS.items()}
STATES = {state: state for state in map(str, ToolCallState)} | STATE_WORDS | {"waiting": "approval-requested"}
STATES |= {NO_RESULT: NO_RESULT}


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """One `name:value` of a query; `is_negated`: `-name:value`."""

    name: str
    value: str
    is_negated: bool = False

    def narrow(self, rows: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        """Return the rows that pass as far as columns tell."""
        narrow = _CONDITIONS[self.name].narrow
        return rows if narrow is None else narrow(rows, self.value, not self.is_negated)

    @property
    def changes(self) -> bool:
        """Return whether the answer can change during a call."""
        return self.name in _CHANGING

    def holds(self, call: ToolCall) -> bool:
        """Return whether the call passes."""
        return _CONDITIONS[self.name].holds(call, self.value) is not self.is_negated


@dataclass(frozen=True, slots=True)
class Search:
    """A query: its terms, the text that is searched, and words that were not understood, each with the reason."""

    terms: tuple[SearchTerm, ...] = ()
    text: str = ""
    faults: tuple[str, ...] = ()

    @property
    def reads_cards(self) -> bool:
        """Return whether columns alone do not tell which calls match."""
        return bool(self.text) or any(_CONDITIONS[term.name].narrow is None for term in self.terms)


@lru_cache(maxsize=256)
def parse_search(query: str) -> Search:
    """Return the terms of a query of calls; other words are text."""
    return read_words(query, {name: condition.find_fault for name, condition in _CONDITIONS.items()})


def read_words(query: str, find_faults: Mapping[str, Callable[[str], str]]) -> Search:
    """Return the terms of a query; other words are text.

    `find_faults`: for each name what is wrong with a value, "" for nothing.
    """
    terms: list[SearchTerm] = []
    faults: list[str] = []
    words: list[str] = []
    for token in _TOKEN.finditer(query):
        if token["range"]:
            start, end = token["range"].split("-")
            pairs = [("since", start), ("until", end)]
        elif token["name"] in find_faults:
            pairs = [(token["name"], token["value"].strip('"'))]
        else:
            words.append(token[0])
            continue
        for name, value in pairs:
            if fault := find_faults[name](value):
                faults.append(f"{token[0]}: {fault}")
            else:
                terms.append(SearchTerm(name, value, token["sign"] == "-"))
    text = " ".join(words) if terms or faults else query
    if len(words) == 1 and text.startswith('"') and text.endswith('"') and len(text) > 2:
        text = text[1:-1]
    return Search(tuple(terms), text, tuple(faults))


# ---------------------------------------------------------------- conditions on columns

Narrow = Callable[[QuerySet[ToolCall], str, bool], QuerySet[ToolCall]]


def _keep(rows: QuerySet[ToolCall], condition: Q, is_included: bool) -> QuerySet[ToolCall]:
    return rows.filter(condition) if is_included else rows.exclude(condition)


def _narrow_by_agent(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    return _keep(rows, Q(GreaterThan(StrIndex(_AGENT_NAME, Value(value)), 0)), is_included)


def _narrow_by_tool(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    name = value.strip("*")
    lookup = {(False, False): "iexact", (False, True): "istartswith", (True, False): "iendswith"}.get(
        (value.startswith("*"), value.endswith("*")), "icontains"
    )
    return _keep(rows, Q(**{f"tool__{lookup}": name}), is_included)


def _has_tool(call: ToolCall, value: str) -> bool:
    name, tool = value.strip("*").lower(), call.tool.lower()
    if value.startswith("*"):
        return name in tool if value.endswith("*") else tool.endswith(name)
    return tool.startswith(name) if value.endswith("*") else tool == name


def narrow_by_state(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    """Return the calls that bars and filters count under the state."""
    state = STATES[value.lower()]
    condition = Q(state=state)
    if state in (NO_RESULT, ToolCallState.OUTPUT_ERROR):
        condition = Q(state=ToolCallState.OUTPUT_ERROR, soft=state == NO_RESULT)
    return _keep(rows, condition, is_included)


def get_shown_state(state: str, *, soft: bool) -> str:
    """Return the state that bars and filters count the call under.

    A call that ended with its run has no result, but did not fail.
    """
    return NO_RESULT if soft and state == ToolCallState.OUTPUT_ERROR else state


def _narrow_by_decider(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    return _keep(rows, Q(Exists(Approval.objects.filter(call=OuterRef("pk"), by_name__iexact=value))), is_included)


def _has_decider(call: ToolCall, value: str) -> bool:
    approval = call.as_card().approval
    return approval is not None and approval.by is not None and approval.by.name.lower() == value.lower()


# ---------------------------------------------------------------- times


def read_time(value: str) -> datetime | None:
    """Return the time that a text names, None for other texts.

    Texts are `2h`, `10:00`, `2026-11-30` or `2026-11-30T10:00`, in UTC. A time of day that has not come is
    yesterday's.
    """
    now = timezone.now()
    try:
        if age := _AGE.fullmatch(value):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        if clock := _CLOCK.fullmatch(value):
            time = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            return time if time <= now else time - timedelta(days=1)
        time = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _narrow_since(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    return _keep(rows, Q(GreaterThanOrEqual(_STARTED_AT, read_time(value))), is_included)


def _narrow_until(rows: QuerySet[ToolCall], value: str, is_included: bool) -> QuerySet[ToolCall]:
    return _keep(rows, Q(LessThan(_STARTED_AT, read_time(value))), is_included)


def _started_before(call: ToolCall, value: str) -> bool:
    times, time = call.as_card().times, read_time(value)
    return time is not None and (times.started or times.requested or times.finished) < time.timestamp()


def find_time_fault(value: str) -> str:
    """Return how to write a time, "" for one."""
    return "" if read_time(value) else "write 2h, 10:00, 2026-11-30 or 2026-11-30T10:00"


# ---------------------------------------------------------------- conditions on cards


def _names_file(call: ToolCall, value: str, *, reads: bool, writes: bool) -> bool:
    files = list_touched_files(call.as_shown_card())
    paths = (files.reads if reads else frozenset()) | (files.writes if writes else frozenset())
    return any(names_file(path, value) for path in paths)


# ---------------------------------------------------------------- the table


def find_empty_fault(value: str) -> str:
    """Return what is missing, "" if nothing is."""
    return "" if value else "write a value after the colon"


def check_choice(choices: list[str]) -> Callable[[str], str]:
    """Return a function that names the choices for other values."""
    return lambda value: "" if value.lower() in choices else f"write one of {', '.join(choices)}"


@dataclass(frozen=True, slots=True)
class _Condition:
    """How one name is asked about; without `narrow`, only the card tells."""

    holds: Callable[[ToolCall, str], bool]
    narrow: Narrow | None = None
    find_fault: Callable[[str], str] = find_empty_fault


_CONDITIONS: dict[str, _Condition] = {
    "agent": _Condition(lambda call, value: value in call.agent_name, _narrow_by_agent),
    "tool": _Condition(_has_tool, _narrow_by_tool),
    "kind": _Condition(
        lambda call, value: call.kind == value.lower(),
        lambda rows, value, is_included: _keep(rows, Q(kind=value.lower()), is_included),
        check_choice(sorted(KINDS)),
    ),
    "state": _Condition(
        lambda call, value: get_shown_state(call.state, soft=call.soft) == STATES[value.lower()],
        narrow_by_state,
        check_choice(sorted(STATES)),
    ),
    "source": _Condition(
        lambda call, value: call.run.source.name == value,
        lambda rows, value, is_included: _keep(rows, Q(run__source__name=value), is_included),
    ),
    "run": _Condition(
        lambda call, value: call.run.name == value,
        lambda rows, value, is_included: _keep(rows, Q(run__name=value), is_included),
    ),
    "by": _Condition(_has_decider, _narrow_by_decider),
    "since": _Condition(lambda call, value: not _started_before(call, value), _narrow_since, find_time_fault),
    "until": _Condition(_started_before, _narrow_until, find_time_fault),
    "path": _Condition(lambda call, value: _names_file(call, value, reads=True, writes=True)),
    "reads": _Condition(lambda call, value: _names_file(call, value, reads=True, writes=False)),
    "writes": _Condition(lambda call, value: _names_file(call, value, reads=False, writes=True)),
    "risk": _Condition(
        lambda call, value: assess_call_risk(call).level == value.lower(), find_fault=check_choice(list(LEVELS))
    ),
}
_CHANGING = frozenset({"state", "by", "risk", "path", "reads", "writes"})
