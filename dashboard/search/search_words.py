"""Words that a search field suggests: terms with few values, and the tools and agents of the latest calls."""

from __future__ import annotations

from dashboard.cards import safe_text
from dashboard.search.run_terms import STATUS_WORDS
from dashboard.search.search_terms import NO_RESULT, STATE_WORDS
from toolcards.core.calls.card import KINDS
from toolcards.core.risk.assessment import LEVELS
from toolcards.models import ToolCall

_TIME_WORDS = ["since:15m", "since:2h", "since:1d", "until:1h"]


def list_search_words(tools: list[str], agents: list[str]) -> list[str]:
    """Return words to suggest, those with few values first."""
    names = [f"{name}:" for name in ("path", "reads", "writes", "by", "run", "source")]
    return [
        *(f"state:{word}" for word in [*STATE_WORDS, NO_RESULT]),
        *(f"risk:{level}" for level in LEVELS),
        *_TIME_WORDS,
        *names,
        *(f"kind:{kind}" for kind in sorted(KINDS)),
        *(f"{name}:{_quote(value)}" for name, values in (("tool", tools), ("agent", agents)) for value in values),
    ]


def list_run_words(agents: list[str], sources: list[str]) -> list[str]:
    """Return words to suggest for a search of runs."""
    return [
        *(f"status:{word}" for word in STATUS_WORDS), *_TIME_WORDS, "tool:",
        *(f"{name}:{_quote(value)}" for name, values in (("agent", agents), ("source", sources)) for value in values),
    ]  # fmt: skip


def _quote(value: str) -> str:
    return f'"{value}"' if " " in value else value


def list_filter_names() -> dict[str, list[str]]:
    """List tools and agents of the latest calls, to suggest as filters.

    Browsers show suggestions unmarked, so names with misleading characters are left out; the filter still finds them.
    """
    rows = set(ToolCall.objects.not_removed().order_by("-pk").values_list("tool", "agent")[:2_000])
    tools, agents = ({row[n] for row in rows if row[n] and safe_text.mark_text(row[n]) == row[n]} for n in (0, 1))
    return {"tools": sorted(tools)[:100], "agents": sorted(agents)[:100]}
