"""The filters of the inbox as links: each sets or drops one word of the address, and the board shows what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.search.filters import CallFilters
from toolcards.core.risk.assessment import LEVELS, assess_call_risk
from toolcards.models import ToolCall

MAX_LINKS = 4  # of one kind


@dataclass(frozen=True, slots=True)
class FilterLink:
    """A link that sets a filter, or drops it if `is_set`."""

    word: str
    url: str
    is_set: bool


def read_filters(query: str) -> CallFilters:
    """Return the search of the address."""
    return CallFilters(q=CallFilters.read(query).q)


def list_filter_links(calls: Iterable[ToolCall], filters: CallFilters) -> list[FilterLink]:
    """Return links for agents, levels of risk and tools.

    Kinds with one value have no links, unless it is set.
    """
    chosen = {term.name: term.value for term in filters.search.terms if not term.is_negated}
    values: dict[str, Counter[str]] = {"agent": Counter(), "risk": Counter(), "tool": Counter()}
    for call in calls:
        values["agent"][call.agent] += 1
        values["risk"][assess_call_risk(call).level] += 1
        values["tool"][call.tool] += 1
    links = []
    for name, counts in values.items():
        words = [word for word, _ in counts.most_common(MAX_LINKS) if word and '"' not in word]
        if name == "risk":
            words.sort(key=LEVELS.index)
        if name in chosen and chosen[name] not in words:
            words.insert(0, chosen[name])
        if len(words) > 1 or name in chosen:
            links += [_build_link(name, word, chosen) for word in words]
    return links


def _build_link(name: str, word: str, chosen: dict[str, str]) -> FilterLink:
    is_set = chosen.get(name) == word
    terms = {key: value for key, value in chosen.items() if key != name} | ({} if is_set else {name: word})
    q = " ".join(f'{key}:"{value}"' if " " in value else f"{key}:{value}" for key, value in terms.items())
    url = f"/approvals/?{urlencode({'q': q}, errors='replace')}" if q else "/approvals/"
    return FilterLink(f"{word} risk" if name == "risk" else word, url, is_set)
