"""Filters are the address: what a page's query asks for, as a queryset and as a question to one row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from urllib.parse import parse_qs, urlencode

from django.db.models import Q, QuerySet

from toolcards.core.lifecycle import KINDS, ToolCallState
from toolcards.models import Run, ToolCall

STATUSES = ("running", "waiting", "finished", "error", "aborted", "truncated")


def _read(query: str, cls: type) -> dict[str, str]:
    given = parse_qs(query)
    return {one.name: given[one.name][0].strip()[:200] for one in fields(cls) if one.name in given}


@dataclass(frozen=True)
class CallFilters:
    """Which calls the page shows; the empty string does not ask."""

    q: str = ""
    state: str = ""
    tool: str = ""
    kind: str = ""
    agent: str = ""

    @classmethod
    def read(cls, query: str) -> CallFilters:
        """Return what a query string asks for; unknown states and kinds ask for nothing."""
        said = _read(query, cls)
        if said.get("state") not in set(map(str, ToolCallState)):
            said.pop("state", None)
        if said.get("kind") not in KINDS:
            said.pop("kind", None)
        return cls(**said)

    def rows(self) -> QuerySet[ToolCall]:
        """Return the calls that match, newest first."""
        exact = {name: getattr(self, name) for name in ("state", "tool", "kind") if getattr(self, name)}
        rows = ToolCall.objects.shown().filter(**exact)
        if self.agent:
            rows = rows.filter(Q(agent=self.agent) | Q(agent__contains=self.agent))
        if self.q:
            said = Q()
            for name in ("tool", "call_id", "agent", "card", "run__name"):
                said |= Q(**{f"{name}__icontains": self.q})
            rows = rows.filter(said)
        return rows.select_related("run", "run__source").order_by("-pk")

    def matches(self, call: ToolCall) -> bool:
        """Return whether the call belongs on the page, whatever state it is in."""
        if (self.tool and call.tool != self.tool) or (self.kind and call.kind != self.kind):
            return False
        if self.agent and self.agent not in call.agent:
            return False
        texts = (call.tool, call.call_id, call.agent, call.card, call.run.name)
        return not self.q or any(self.q.casefold() in text.casefold() for text in texts)

    def right_state(self, call: ToolCall) -> bool:
        """Return whether the call is in the state that the page asks for."""
        return not self.state or call.state == self.state

    @property
    def set(self) -> list[tuple[str, str, str]]:
        """What is asked for: name, value, and the query without it."""
        return _without(self)


@dataclass(frozen=True)
class RunFilters:
    """Which runs the page shows."""

    status: str = ""
    agent: str = ""

    @classmethod
    def read(cls, query: str) -> RunFilters:
        """Return what a query string asks for."""
        said = _read(query, cls)
        if said.get("status") not in STATUSES:
            said.pop("status", None)
        return cls(**said)

    def rows(self) -> QuerySet[Run]:
        """Return the runs that match, newest first."""
        exact = {name: getattr(self, name) for name in ("status", "agent") if getattr(self, name)}
        return Run.objects.filter(**exact).select_related("source").order_by("-pk")

    @property
    def set(self) -> list[tuple[str, str, str]]:
        """What is asked for: name, value, and the query without it."""
        return _without(self)


def _without(filters: CallFilters | RunFilters) -> list[tuple[str, str, str]]:
    said = {one.name: getattr(filters, one.name) for one in fields(filters) if getattr(filters, one.name)}
    return [(name, said[name], urlencode({k: v for k, v in said.items() if k != name})) for name in said]
