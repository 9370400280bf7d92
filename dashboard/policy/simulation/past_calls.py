"""Past calls as policy requests: read in chunks, newest first, and not kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Case, F, TextField, Value, When
from django.db.models.functions import Length

from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import PolicyRequest
from toolcards.core.policy.request import read_moment
from toolcards.core.redaction.detectors import OPEN
from toolcards.core.redaction.masks import has_mask
from toolcards.gate import list_identities
from toolcards.models import Run, ToolCall, ToolCallQuerySet

CHUNK = 500  # rows in memory at once
MAX_OF_RUN = 1_000  # calls of one run that are read before those of other runs
SLICE = 2_000
LARGEST = 64 * 1024  # characters of a stored card; larger ones are counted, not evaluated
DAY = 86_400.0
_MARK = json.dumps(OPEN)[1:-1]  # as spelled in a stored card, which is ASCII
_COLUMNS = ("id", "run_id", "ordinal", "tool", "stored", "started_at")


@dataclass(frozen=True, slots=True)
class Span:
    """Limits on past calls: their number, their age in days (0: any), their tool and agent.

    `newest`, `oldest`: the ids at both ends of a slice, both included; 0 is no bound.
    """

    calls: int = 5_000
    days: float = 7.0
    tool: str = ""
    agent: str = ""
    newest: int = 0
    oldest: int = 0

    def rows(self) -> ToolCallQuerySet:
        """Return the calls, without limits on age and number."""
        rows = ToolCall.objects.not_removed()
        rows = rows.filter(tool=self.tool) if self.tool else rows
        rows = rows.filter(id__gte=self.oldest) if self.oldest else rows
        rows = rows.filter(id__lte=self.newest) if self.newest else rows
        return rows.filter(agent=self.agent) if self.agent else rows

    def total(self) -> int:
        """Return how many calls will be read, at most."""
        return self.rows().order_by()[: self.calls].count()


@dataclass(frozen=True, slots=True)
class PastCall:
    """A past call. `question`: None without known arguments. `person` is how a person answered it."""

    pk: int
    public_id: str
    tool: str
    question: PolicyRequest | None
    person: str = ""  # approved, denied, or "" if no person answered


def split_span(span: Span) -> list[Span]:
    """Return the span in pieces for several processes, newest first."""
    ids = list(span.rows().order_by("-id").values_list("id", flat=True)[: span.calls])
    parts = [ids[start : start + SLICE] for start in range(0, len(ids), SLICE)]
    return [replace(span, calls=len(part), newest=part[0], oldest=part[-1]) for part in parts]


def iterate_calls_of_tool_first(call: ToolCall, span: Span) -> Iterator[PastCall]:
    """Yield past calls, those that are most like this call first.

    First the calls of its tool in its run, then its tool's calls in all runs, then other tools; each newest first. On
    a busy server the newest calls of all tools may hold none of this one. Both reads use an index.
    """
    of_run = ToolCall.objects.filter(run=call.run_id).order_by("-ordinal").values_list("pk", "tool", "removed")
    pks = [pk for pk, tool, is_removed in of_run[: 5 * MAX_OF_RUN] if tool == call.tool and not is_removed]
    first = ToolCall.objects.filter(pk__in=pks[:MAX_OF_RUN])
    other_tools = replace(span, tool="").rows().exclude(tool=call.tool)
    of_tool = replace(span, tool=call.tool)
    yielded_pks: set[int] = set()
    for rows in (first, of_tool.rows(), other_tools):
        for past_call in iterate_past_calls(span, rows):
            if past_call.pk not in yielded_pks:
                yielded_pks.add(past_call.pk)
                yield past_call
            if len(yielded_pks) >= span.calls:
                return


def iterate_past_calls(span: Span, rows: ToolCallQuerySet | None = None) -> Iterator[PastCall]:
    """Yield the calls of the span, or of these rows, newest first.

    Reads by key, so a long read holds no lock and little memory.
    """
    size = Length("card")  # encrypted: a third more than its content
    # Still encrypted: a whole chunk is decrypted at once.
    small_card = Case(When(size__lte=LARGEST * 4 // 3, then=F("card")), default=Value(""), output_field=TextField())
    rows = (span.rows() if rows is None else rows).annotate(size=size, stored=small_card).order_by("-id")
    oldest = datetime.fromtimestamp(time.time() - span.days * DAY, UTC) if span.days else None
    last, remaining, people = None, span.calls, _PrincipalNames()
    while remaining > 0:
        older = rows.filter(id__lt=last) if last else rows
        chunk = list(older.values_list(*_COLUMNS, named=True)[: min(CHUNK, remaining)])
        young = [row for row in chunk if oldest is None or row.started_at is None or row.started_at >= oldest]
        if not young:  # ids grow with time, except for late reports
            return
        runs = _load_runs({row.run_id for row in young})
        cards = ToolCall._meta.get_field("card").open_all(row.stored for row in young)
        for row, card_text in zip(young, cards, strict=True):
            run = runs.get(row.run_id)
            if run is None:  # deleted since, and its calls with it
                continue
            card_data = _decode_input(card_text)
            whose = {"run": run.name, "env": run.env, "user": people[run.owner], "program": run.program}
            question = _build_request(card_data, _MARK in card_text, run.source, whose)
            yield PastCall(row.id, f"{row.run_id}-{row.ordinal}", row.tool, question, _read_answer(card_data))
        last, remaining = chunk[-1].id, remaining - len(young)


class _PrincipalNames(dict[int | None, tuple[str, ...]]):
    """The names that rules may use for the owner of a source; read once."""

    def __missing__(self, owner: int | None) -> tuple[str, ...]:
        person = get_user_model().objects.filter(pk=owner).first() if owner else None
        self[owner] = list_identities(person) if person else ()
        return self[owner]


@dataclass(frozen=True, slots=True)
class _RunOrigin:
    """Where a run came from; `owner` is the id of the source's owner."""

    name: str
    source: str
    env: str
    owner: int | None
    program: str


def _load_runs(ids: set[int]) -> dict[int, _RunOrigin]:
    columns = ("name", "source__name", "source__env", "source__owner_id", "protocol")
    rows = Run.objects.filter(id__in=ids).values_list("id", *columns)
    return {pk: _RunOrigin(*values) for pk, *values in rows}


def _decode_input(text: str) -> dict[str, Any]:
    try:
        card_data = json.loads(text) if text else {}
    except ValueError:
        return {}
    return card_data if isinstance(card_data, dict) else {}


def _build_request(
    card_data: dict[str, Any], is_marked: bool, source: str, whose: dict[str, Any]
) -> PolicyRequest | None:
    arguments = card_data.get("original_input") if card_data.get("repair") == "edited" else card_data.get("input")
    if not card_data.get("has_input") or (is_marked and has_mask(arguments)):
        return None
    tool, times = card_data.get("tool") or {}, card_data.get("times") or {}
    verdict = card_data.get("decision") or {}
    return PolicyRequest.for_tool(
        tool.get("name", ""), source=tool.get("source", ""), claimed_kind=tool.get("kind", ""),
        agent_path=tuple(card_data.get("agent_path") or (source,)), input=arguments,
        is_known=verdict.get("known", True), changed=verdict.get("changed", False),
        **whose | _restore_moment(verdict.get("moment"), times.get("available") or times.get("started") or 0.0),
    )  # fmt: skip


def _restore_moment(recorded_moment: dict[str, Any] | None, otherwise: float) -> dict[str, Any]:
    """Return the recorded facts of the moment, or only the time."""
    return read_moment(recorded_moment) if recorded_moment else {"now": otherwise}


_YES = frozenset({"approved", "claimed", "succeeded", "failed", "unknown"})


def _read_answer(card_data: dict[str, Any]) -> str:
    if ((card_data.get("denied_by") or {}).get("kind")) == "human":
        return "denied"
    ask = card_data.get("approval") or {}
    actor = ask.get("by") or {}
    return "approved" if actor.get("kind") == "human" and ask.get("state") in _YES else ""


def request_for_call(call: ToolCall, card: Card) -> PolicyRequest:
    """Return one call as a request to the policy."""
    arguments = card.original_input if card.repair == "edited" else card.input
    source, verdict = call.run.source, card.decision
    user = list_identities(source.owner) if source.owner else ()
    whose = {"env": source.env, "user": user, "program": call.run.protocol}
    return PolicyRequest.for_tool(
        card.tool.name,
        source=card.tool.source,
        claimed_kind=card.tool.kind,
        agent_path=card.agent_path or (source.name,),
        input=arguments,
        has_input=card.has_input and not has_mask(arguments),
        run=call.run.name,
        is_known=verdict.known if verdict else True,
        changed=verdict.changed if verdict else False,
        **whose | _restore_moment(verdict.moment if verdict else None, card.times.available or card.times.started),
    )
