"""How many calls wait for people, in numbers and in one sentence for those who cannot see the page."""

from __future__ import annotations

from typing import Any

from dashboard import marks
from toolcards.core.call import summary
from toolcards.models import ToolCall


def now() -> dict[str, Any]:
    """Return the count, the newest call's id, and what to say about it when it is the first."""
    waiting = ToolCall.objects.waiting()
    count = waiting.count()
    newest = waiting.reverse().first() if count else None
    return {
        "count": count,
        "newest": newest.public_id if newest else "",
        "says": _sentence(newest) if newest else "",
    }


def _sentence(call: ToolCall) -> str:
    card = call.as_shown_card()
    about = ", ".join(part for part in (card.tool.name, summary(card)[:80], call.agent) if part)
    return f"Approval needed: {marks.plain(about)}. Press n to go there."
