"""Groups of similar waiting calls, so that people can compare and answer several at once.

Calls are similar if they have the same source and tool, the same risk for the same reasons, the same terms, and inputs
of the same shape: the same names with the same kinds of values, and commands of the same programs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from dashboard.cards.card_view import CardView
from dashboard.cards.payloads import excerpts
from dashboard.inbox.order import compute_place
from dashboard.policy.rules.suggestions import COMMANDS
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.policy.shell.script import read_line
from toolcards.core.risk.assessment import Risk
from toolcards.core.summaries.summary import summarize
from toolcards.models import Approval, ToolCall

MIN_GROUP_SIZE = 2  # calls to a group
MAX_GROUP_SIZE = 50  # of them can be answered together
MAX_CALLS = 200  # of the waiting calls
MAX_TEXT = 2_000  # characters of an input; longer ones are shown on their cards
MAX_REASONS = 10  # denials whose reasons are suggested
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True, slots=True)
class GroupCell:
    """One value of one call: its own part, and the common parts before and after it."""

    name: str
    before: str
    own: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupItem:
    """One call of a group. `ticket` is the value of its checkbox: the approval, and what was shown."""

    call: ToolCall
    view: CardView
    cells: tuple[GroupCell, ...] = ()

    @property
    def card(self) -> Card:
        """Return the card as it is shown."""
        return self.view.card

    @property
    def ticket(self) -> str:
        """Return what a vote of this call must name.

        Approval, revision, digest of the arguments and digest of the card, separated by spaces.
        """
        ask = self.card.approval or CardApproval()
        return f"{ask.id} {self.card.rev} {ask.args_sha256 or '-'} {self.view.view_sha256}"


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Calls of one shape: the names of the values that differ, and the values that are equal."""

    key: str
    items: list[GroupItem]
    differs: list[str]
    same: list[tuple[str, str]]
    hidden_count: int = 0  # more calls, which are not listed

    @property
    def tool(self) -> str:
        """Return the tool of all these calls."""
        return self.items[0].card.tool.name

    @property
    def example(self) -> str:
        """Return the input of the first call in one line."""
        return summarize(self.items[0].card)

    @property
    def risk(self) -> Risk:
        """Return the risk of each call."""
        return self.items[0].view.risk

    @property
    def approvable(self) -> bool:
        """Return whether the calls may be approved together.

        A call with a high risk is approved on its own card.
        """
        return self.risk.level != "high"

    @property
    def reason(self) -> str:
        """Return when the asking rule requires a reason: always, on_deny or never."""
        ask = self.items[0].card.approval
        return str(ask.terms.get("reason", "")) if ask else ""


@dataclass(frozen=True, slots=True)
class RunGroup:
    """All waiting calls of one run, which can be denied together."""

    items: list[GroupItem]

    @property
    def key(self) -> int:
        """Return what the run's form is found by, when the list changes."""
        return self.items[0].call.run_id

    @property
    def name(self) -> str:
        """Return the run's name, which is unique within its source."""
        return self.items[0].call.run.name

    @property
    def source(self) -> str:
        """Return the name of its source."""
        return self.items[0].call.run.source.name

    @property
    def url(self) -> str:
        """Return the address of its page."""
        return self.items[0].call.run.url

    @property
    def tools(self) -> list[tuple[str, int]]:
        """Return its tools with their numbers of waiting calls."""
        return Counter(item.card.tool.name for item in self.items).most_common()


# ---------------------------------------------------------------- what the inbox shows


def build_groups_context(rows: Iterable[ToolCall] | None = None) -> dict[str, Any]:
    """Return the groups and runs of the waiting calls, for the template.

    `rows`: the calls, if they are already loaded.
    """
    if rows is None:
        rows = ToolCall.objects.waiting().select_related("run", "run__source")[:MAX_CALLS]
    every = (GroupItem(call, CardView(call.as_shown_card(), call=call)) for call in rows)
    items = [item for item in every if item.view.votable]
    return {"groups": group_similar_calls(items), "runs": group_by_run(items), "most": MAX_GROUP_SIZE}


_cached_groups: tuple[list[tuple[Any, ...]], str] = ([], "")  # the waiting calls, and their HTML


def render_groups() -> str:
    """Return the groups as HTML without form tokens, shared by all readers.

    Rendered again when the waiting calls have changed.
    """
    global _cached_groups
    now = list(ToolCall.objects.waiting().values_list("pk", "rev", "requested_at")[:MAX_CALLS])
    if now != _cached_groups[0] or not now:
        _cached_groups = (now, render_to_string("approvals/_groups.html", build_groups_context()))
    return _cached_groups[1]


def list_recent_reasons() -> list[str]:
    """Return recent reasons of denials, the newest first, without repetitions."""
    denied_approvals = (
        Approval.objects.filter(state="denied", by_kind="human").exclude(reason="").order_by("-decided_at")
    )
    return list(dict.fromkeys(denied_approvals.values_list("reason", flat=True)[:MAX_REASONS]))


def group_similar_calls(items: Iterable[GroupItem]) -> list[CallGroup]:
    """Return groups of similar calls, the riskiest first.

    Within a risk, those that have waited longest come first.
    """
    by_key: dict[tuple[Any, ...], list[GroupItem]] = defaultdict(list)
    for item in items:
        if len(json.dumps(item.card.input)) <= MAX_TEXT and not (item.card.approval or CardApproval()).has_edited:
            by_key[_compute_group_key(item)].append(item)
    call_groups = [_build_group(key, same) for key, same in by_key.items() if len(same) >= MIN_GROUP_SIZE]
    return sorted(call_groups, key=lambda group: compute_place(group.risk))


def group_by_run(items: Iterable[GroupItem]) -> list[RunGroup]:
    """Return the runs of which several calls wait."""
    by_run: dict[int, list[GroupItem]] = defaultdict(list)
    for item in items:
        by_run[item.call.run_id].append(item)
    return [RunGroup(same[:MAX_GROUP_SIZE]) for same in by_run.values() if len(same) >= MIN_GROUP_SIZE]


# ---------------------------------------------------------------- shapes


def _compute_group_key(item: GroupItem) -> tuple[Any, ...]:
    card, terms = item.card, (item.card.approval or CardApproval()).terms
    terms_json = json.dumps(terms, sort_keys=True)
    return (
        item.call.run.source_id, card.tool.name, card.tool.source, item.view.risk, terms_json, card.has_input,
        compute_shape(card.input),
    )  # fmt: skip


def compute_shape(value: Any, name: str = "") -> Any:
    """Return the shape of a value, to find similar calls.

    Of an object its names and their shapes, of a command its programs.
    """
    if isinstance(value, dict):
        return ("object", *sorted((key, compute_shape(part, key)) for key, part in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({compute_shape(part) for part in value}, key=repr))
    if isinstance(value, str) and name in COMMANDS:
        return ("command", *_describe_programs(value))
    return type(value).__name__


def _describe_programs(line: str) -> tuple[Any, ...]:
    """Return program, subcommand and options of each command in a line, else the line."""
    parts = read_line(line).segments
    if any(part.opaque for part in parts):
        return (line,)
    return tuple(
        (words[0], *[w for w in words[1:2] if _SUBCOMMAND.fullmatch(w)], *sorted(w for w in words[1:] if w[0:1] == "-"))
        for words in (part.words for part in parts)
        if words
    )


def _build_group(key: tuple[Any, ...], items: list[GroupItem]) -> CallGroup:
    visible_items = items[:MAX_GROUP_SIZE]
    fields = [_list_fields(item.card.input) for item in visible_items]
    names = list(fields[0])
    differs = [name for name in names if len({values[name] for values in fields}) > 1]
    columns = {name: _split_cells(name, [values[name] for values in fields]) for name in differs}
    rows = [
        GroupItem(item.call, item.view, tuple(columns[name][index] for name in differs))
        for index, item in enumerate(visible_items)
    ]
    same = [(name, fields[0][name]) for name in names if name not in differs]
    name = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return CallGroup(name, rows, differs, same, len(items) - len(visible_items))


def _list_fields(input_value: Any) -> dict[str, str]:
    """Return the parts of the input by name, as text.

    An input that is not an object is one part.
    """
    parts = input_value if isinstance(input_value, dict) else {"input": input_value}
    return {name: '""' if part == "" else excerpts.format_value(part) for name, part in sorted(parts.items())}


def _split_cells(name: str, texts: list[str]) -> list[GroupCell]:
    """Split each text into its own part and the common parts around it."""
    head = _count_common_prefix(texts)
    room = min(len(text) for text in texts) - head
    tail = min(room, _count_common_prefix([text[::-1] for text in texts]))
    return [GroupCell(name, text[:head], text[head : len(text) - tail], text[len(text) - tail :]) for text in texts]


def _count_common_prefix(texts: list[str]) -> int:
    """Return the length of the common prefix.

    The first and the last text in sorted order determine it.
    """
    first, last = min(texts), max(texts)
    return next((index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
