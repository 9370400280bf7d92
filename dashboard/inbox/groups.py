"""Waiting calls that are alike, so that one look at what differs, and one answer, may do for several of them.

Alike are calls of one source and tool that carry the same risk for the same reasons, were asked under the same terms,
and whose inputs have the same shape: the same names with the same kinds of values, commands of the same programs.
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

from dashboard.cards import risk
from dashboard.cards.card_view import CardView
from dashboard.cards.payloads import payload_view
from dashboard.policy.suggestions import COMMANDS
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.policy.shell.script import read_line
from toolcards.models import Approval, ToolCall

MIN_GROUP_SIZE = 2  # calls to a group
MAX_GROUP_SIZE = 50  # of them are answered at once
MAX_CALLS = 200  # of the calls that wait
MAX_TEXT = 2_000  # characters of an input; a longer one is read on its card
MAX_REASONS = 10  # denials whose reasons are offered again
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True, slots=True)
class GroupCell:
    """One value of one call: what all have in common before and after, and between them what this one has."""

    name: str
    before: str
    own: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupItem:
    """One call of a group. `ticket` is what its box sends: the approval, and what of it was shown."""

    call: ToolCall
    view: CardView
    cells: tuple[GroupCell, ...] = ()

    @property
    def card(self) -> Card:
        """The call as it is shown."""
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
    """Calls of one shape: the names of what differs between them, and what is the same in all."""

    key: str
    items: list[GroupItem]
    differs: list[str]
    same: list[tuple[str, str]]
    left: int = 0  # more of them, for which there is no room

    @property
    def tool(self) -> str:
        """The tool that all of them call."""
        return self.items[0].card.tool.name

    @property
    def risk(self) -> risk.Risk:
        """How closely to look at each."""
        return self.items[0].view.risk

    @property
    def approvable(self) -> bool:
        """Whether they may be approved together.

        A high risk is approved by itself, on its card.
        """
        return self.risk.level != "high"

    @property
    def reason(self) -> str:
        """When the rule that asks wants a reason: always, on_deny or never."""
        ask = self.items[0].card.approval
        return str(ask.terms.get("reason", "")) if ask else ""


@dataclass(frozen=True, slots=True)
class RunGroup:
    """All that waits of one run, whatever it is: it can be denied at once."""

    items: list[GroupItem]

    @property
    def name(self) -> str:
        """The run's name, which is unique for its source only."""
        return self.items[0].call.run.name

    @property
    def source(self) -> str:
        """The name of its source."""
        return self.items[0].call.run.source.name

    @property
    def url(self) -> str:
        """Where its page is."""
        return self.items[0].call.run.url

    @property
    def tools(self) -> list[tuple[str, int]]:
        """Its tools, with how many calls of each wait."""
        return Counter(item.card.tool.name for item in self.items).most_common()


# ---------------------------------------------------------------- what the inbox shows


def build_groups_context(rows: Iterable[ToolCall] | None = None) -> dict[str, Any]:
    """Return the groups and runs of the waiting calls, for the template.

    `rows`: the calls, if they are already loaded.
    """
    if rows is None:
        rows = ToolCall.objects.waiting().select_related("run", "run__source")[:MAX_CALLS]
    items = [item for item in (GroupItem(call, CardView(call.as_shown_card())) for call in rows) if item.view.votable]
    return {"groups": group_similar_calls(items), "runs": group_by_run(items), "most": MAX_GROUP_SIZE}


_cached_groups: tuple[list[tuple[Any, ...]], str] = ([], "")  # what waited, and how that was drawn


def render_groups() -> str:
    """Return the same as HTML for everybody, without anybody's form token.

    Rendered again when the waiting calls have changed.
    """
    global _cached_groups
    now = list(ToolCall.objects.waiting().values_list("pk", "rev", "requested_at")[:MAX_CALLS])
    if now != _cached_groups[0] or not now:
        _cached_groups = (now, render_to_string("approvals/_alike.html", build_groups_context()))
    return _cached_groups[1]


def list_recent_reasons() -> list[str]:
    """Return recent reasons of denials, the newest first, without repetitions."""
    denied = Approval.objects.filter(state="denied", by_kind="human").exclude(reason="").order_by("-decided_at")
    return list(dict.fromkeys(denied.values_list("reason", flat=True)[:MAX_REASONS]))


def group_similar_calls(items: Iterable[GroupItem]) -> list[CallGroup]:
    """Return groups of similar calls, the riskiest first.

    Within a risk, those that have waited longest come first.
    """
    by_key: dict[tuple[Any, ...], list[GroupItem]] = defaultdict(list)
    for item in items:
        if len(json.dumps(item.card.input)) <= MAX_TEXT and not (item.card.approval or CardApproval()).has_edited:
            by_key[_compute_group_key(item)].append(item)
    call_groups = [_build_group(key, same) for key, same in by_key.items() if len(same) >= MIN_GROUP_SIZE]
    return sorted(call_groups, key=lambda group: group.risk.rank)


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
    """What a command line runs: of each part the program, its subcommand and its options; else the line itself."""
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
    """The input's parts by name, as text; an input that is no object is one part."""
    parts = input_value if isinstance(input_value, dict) else {"input": input_value}
    return {name: '""' if part == "" else payload_view.format_value(part) for name, part in sorted(parts.items())}


def _split_cells(name: str, texts: list[str]) -> list[GroupCell]:
    """Cut each text where it begins, and stops, to differ from the others."""
    head = _count_common_prefix(texts)
    room = min(len(text) for text in texts) - head
    tail = min(room, _count_common_prefix([text[::-1] for text in texts]))
    return [GroupCell(name, text[:head], text[head : len(text) - tail], text[len(text) - tail :]) for text in texts]


def _count_common_prefix(texts: list[str]) -> int:
    """Return how many characters all begin with: no more than the two that are sorted furthest apart."""
    first, last = min(texts), max(texts)
    return next((index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
