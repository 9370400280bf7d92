"""Filters are the address: what a page's query asks for, as a queryset and as a question to one row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from urllib.parse import parse_qs, urlencode

from django.db.models import Q, QuerySet

from dashboard.cards import labels
from dashboard.search.search_terms import NO_RESULT, Search, SearchTerm, parse_search
from dashboard.search.search_words import STATUSES, narrow_runs, parse_run_search
from toolcards.core.calls.card import KINDS, ToolCallState
from toolcards.core.calls.card_codec import dump_card
from toolcards.core.text.search_signature import list_needle_bits, list_needles
from toolcards.models import Run, ToolCall, search_index

SEARCHED = 20_000  # calls that one page of a search decrypts
CHUNK = 100  # whole cards in memory at once
MAX_VALUE = 200  # characters of one filter
_NAMES = {"q": "Text"}  # other filters are named as their fields
NO_RESULT_WORD = "No result"


def _read_query(query: str, cls: type) -> dict[str, str]:
    """Return the fields that the query names, without NUL, which PostgreSQL refuses."""
    parameters = parse_qs(query)
    first_values = {name: parameters[name][0] for name in (field.name for field in fields(cls)) if name in parameters}
    return {name: value.replace("\0", "").strip()[:MAX_VALUE] for name, value in first_values.items()}


@dataclass(frozen=True, slots=True)
class CallListPage:
    """Calls, and the row before which the next page begins, 0 for none; `searched` if the search stopped early."""

    calls: list[ToolCall]
    more: int
    searched: int = 0


@dataclass(frozen=True, slots=True)
class FilterChip:
    """One filter that is set, in the words of the pages; `query` has the other filters."""

    name: str
    word: str
    query: str


@dataclass(frozen=True)
class Filters:
    """Filters of a page; the empty string does not ask."""

    @property
    def set(self) -> list[tuple[str, str, str]]:
        """Return what is asked for: name, value, and the query without it."""
        values = {field.name: value for field in fields(self) if (value := getattr(self, field.name))}
        return [(name, values[name], urlencode({k: v for k, v in values.items() if k != name})) for name in values]

    @property
    def chips(self) -> list[FilterChip]:
        """Return what is asked for, in the words of the pages."""
        return [
            FilterChip(_NAMES.get(name, name.capitalize()), _find_word(name, value), query)
            for name, value, query in self.set
        ]


def _find_word(name: str, value: str) -> str:
    if name == "state":
        return NO_RESULT_WORD if value == NO_RESULT else labels.STATE_LABELS[ToolCallState(value)].word
    return labels.RUN_LABELS[value].word if name == "status" else value


@dataclass(frozen=True)
class CallFilters(Filters):
    """Which calls the page shows."""

    q: str = ""
    state: str = ""
    tool: str = ""
    kind: str = ""
    agent: str = ""
    source: str = ""
    run: str = ""

    @classmethod
    def read(cls, query: str) -> CallFilters:
        """Return what a query string asks for.

        Unknown states and kinds ask for nothing.
        """
        values = _read_query(query, cls)
        if values.get("state") not in {*map(str, ToolCallState), NO_RESULT}:
            values.pop("state", None)
        if values.get("kind") not in KINDS:
            values.pop("kind", None)
        return cls(**values)

    @property
    def search(self) -> Search:
        """Return the words of `q`."""
        return parse_search(self.q)

    def rows(self) -> QuerySet[ToolCall]:
        """Return the calls that match as far as columns tell, newest first."""
        exact = {"tool": self.tool} if self.tool else {}
        rows: QuerySet[ToolCall] = ToolCall.objects.not_removed().filter(**exact)
        for term in (*self._terms, *self.search.terms):
            rows = term.narrow(rows)
        if self.state:
            rows = SearchTerm("state", self.state).narrow(rows)
        return rows.select_related("run", "run__source").order_by("-pk")

    @property
    def _terms(self) -> list[SearchTerm]:
        """Return the fields that ask the same as a word of a search."""
        names = ("kind", "agent", "source", "run")
        return [SearchTerm(name, value) for name in names if (value := getattr(self, name))]

    def page(self, size: int, before: int = 0) -> CallListPage:
        """Return the newest calls that match (before that row).

        A search decrypts `SEARCHED` calls at most.
        """
        rows = self.rows().filter(pk__lt=before) if before else self.rows()
        if not self.search.reads_cards:
            calls = list(rows[: size + 1])
            return CallListPage(calls[:size], calls[size - 1].pk if len(calls) > size else 0)
        candidates = self._list_candidates(rows, before)
        return self._search(rows, size) if candidates is None else self._search_candidates(rows, candidates, size)

    def _list_candidates(self, rows: QuerySet[ToolCall], before: int) -> list[int] | None:
        """Return the calls that may have the text, newest first; None if the index cannot tell."""
        needles = list_needle_bits(self.search.text)
        if not needles:
            return None
        # Read first: a call that is indexed in between is in both lists, not in neither.
        unindexed_pks = set(rows.filter(indexed=False).values_list("pk", flat=True)[: SEARCHED + 1])
        candidates = search_index.find_candidates(needles, before)
        return None if candidates is None else sorted(unindexed_pks.union(candidates), reverse=True)

    def _search_candidates(self, rows: QuerySet[ToolCall], candidates: list[int], size: int) -> CallListPage:
        matches: list[ToolCall] = []
        for start in range(0, min(len(candidates), SEARCHED), CHUNK):
            chunk = candidates[start : min(start + CHUNK, SEARCHED)]
            for call in rows.filter(pk__in=chunk):
                if self.says(call):
                    matches.append(call)
                    if len(matches) > size:
                        return CallListPage(matches[:size], matches[size - 1].pk)
        cut = len(candidates) > SEARCHED
        return CallListPage(matches, candidates[SEARCHED - 1] if cut else 0, SEARCHED if cut else 0)

    def _search(self, rows: QuerySet[ToolCall], size: int) -> CallListPage:
        """Read call by call, for a term that is too short for the index or in many calls."""
        matches: list[ToolCall] = []
        last = examined_count = 0
        while examined_count < SEARCHED:
            chunk = list((rows.filter(pk__lt=last) if last else rows)[: min(CHUNK, SEARCHED - examined_count)])
            for call in chunk:
                last, examined_count = call.pk, examined_count + 1
                if self.says(call):
                    matches.append(call)
                    if len(matches) > size:
                        return CallListPage(matches[:size], matches[size - 1].pk)
            if len(chunk) < CHUNK and examined_count < SEARCHED:
                return CallListPage(matches, 0)  # there are no older ones
        return CallListPage(matches, last, examined_count)

    def matches(self, call: ToolCall) -> bool:
        """Return whether the call passes all but `matches_now`."""
        if self.tool and call.tool != self.tool:
            return False
        lasting_terms = [term for term in (*self._terms, *self.search.terms) if not term.changes]
        return all(term.holds(call) for term in lasting_terms) and self._has_text(call)

    def matches_now(self, call: ToolCall) -> bool:
        """Return whether the call passes what can change, as its state."""
        changing_terms = [term for term in self.search.terms if term.changes]
        changing_terms += [SearchTerm("state", self.state)] if self.state else []
        return all(term.holds(call) for term in changing_terms)

    def says(self, call: ToolCall) -> bool:
        """Return whether the call passes `q`."""
        return all(term.holds(call) for term in self.search.terms) and self._has_text(call)

    def _has_text(self, call: ToolCall) -> bool:
        """Return whether the visible text contains that of the search."""
        needle, stored_needle = list_needles(self.search.text)
        if any(needle in text.casefold() for text in (call.tool, call.call_id, call.agent, call.run.name)):
            return True
        return stored_needle in call.card.casefold() and stored_needle in dump_card(call.as_shown_card()).casefold()


@dataclass(frozen=True)
class RunFilters(Filters):
    """Which runs the page shows."""

    q: str = ""
    status: str = ""
    agent: str = ""
    source: str = ""

    @property
    def search(self) -> Search:
        """Return the words of `q`."""
        return parse_run_search(self.q)

    @classmethod
    def read(cls, query: str) -> RunFilters:
        """Return what a query string asks for."""
        values = _read_query(query, cls)
        if values.get("status") not in STATUSES:
            values.pop("status", None)
        return cls(**values)

    def rows(self) -> QuerySet[Run]:
        """Return the runs that match, newest first."""
        runs = Run.objects.filter(status=self.status) if self.status else Run.objects.all()
        if self.agent:
            runs = runs.filter(Q(agent=self.agent) | Q(agent="", source__name=self.agent))
        if self.source:
            runs = runs.filter(source__name=self.source)
        return narrow_runs(runs, self.search).select_related("source").order_by("-pk")
