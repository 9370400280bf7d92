"""The calls of a run's page: the newest as cards, older ones as lines, bounded in what the page holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from dashboard.cards import rendering
from dashboard.cards.rendering import CardForm
from dashboard.runs.narration import TextBlock
from toolcards.models import Run, ToolCall

PAGE = 80  # lines that a page has room for; a card takes one too, and a block of text two
BLOCK_LINES = 2
MAX_BLOCKS = 150  # newest blocks of text on a page
CARDS = 8  # newest calls, shown as cards
WAITING_CARDS = 10  # older calls that wait for a person, shown as cards; the oldest, which the agent waits for longest


@dataclass(frozen=True, slots=True)
class RunCard:
    """A call on the page of its run; `is_line` if it is shown as one line."""

    call: ToolCall
    is_line: bool

    @property
    def ordinal(self) -> int:
        """Return the call's place in the run."""
        return self.call.ordinal

    @property
    def form(self) -> CardForm:
        """Return how the page shows the call."""
        return CardForm.LINE if self.is_line else CardForm.CARD


@dataclass(frozen=True, slots=True)
class RunPage:
    """What a page of a run shows: calls and blocks of text, oldest first.

    `older`: the ordinal of its first call if there are older ones, else 0.
    """

    cards: list[RunCard]
    blocks: list[TextBlock]
    older: int


def build_run_page(
    run: Run, blocks: Iterable[TextBlock] = (), *, before: int = 0, with_removed: bool = False
) -> RunPage:
    """Return the run's newest calls with the text between them.

    `before`: only calls with lower ordinals. `with_removed`: also those that were removed. The source of `run`
    must be loaded. Cards that were rendered before are not decrypted.
    """
    rows = ToolCall.objects.filter(run=run)
    rows = rows if with_removed else rows.filter(removed=False)
    newest = (rows.filter(ordinal__lt=before) if before else rows).order_by("-ordinal")
    calls = list(reversed(newest.defer("card", "text")[: PAGE + 1]))
    page_blocks = [block for block in blocks if not before or block.after < before - 1]
    page_calls = calls[_find_first(calls, page_blocks) :]
    first = page_calls[0].ordinal if page_calls else 0
    lines = choose_lines(page_calls)
    loaded_calls = rendering.load_for_rendering(page_calls, lines)
    for call in loaded_calls:
        call.run = run
    return RunPage(
        [RunCard(call, call.ordinal in lines) for call in loaded_calls],
        [block for block in page_blocks if block.after >= first - 1][-MAX_BLOCKS:],
        first if len(page_calls) < len(calls) else 0,
    )


def _find_first(calls: Sequence[ToolCall], blocks: Sequence[TextBlock]) -> int:
    """Return the index of the oldest call for which the page has room."""
    lines_used, texts = 0, len(blocks)
    for index in range(len(calls) - 1, -1, -1):
        while texts and blocks[texts - 1].after >= calls[index].ordinal - 1:
            texts -= 1
            lines_used += BLOCK_LINES
        lines_used += 1
        if lines_used > PAGE:
            return min(index + 1, len(calls) - 1)
    return 0


def choose_lines(calls: Sequence[ToolCall]) -> frozenset[int]:
    """Return the ordinals of the calls that are shown as one line."""
    present = [call for call in calls if not call.removed]
    older = present[:-CARDS]
    waiting = [call.ordinal for call in older if call.waiting][:WAITING_CARDS]
    return frozenset(call.ordinal for call in older) - frozenset(waiting)


def interleave(page: RunPage) -> list[Any]:
    """Return cards and rendered blocks of text in order."""
    blocks = list(page.blocks)
    items: list[RunCard | SafeString] = []
    for card in page.cards:
        while blocks and blocks[0].after < card.ordinal:
            items.append(blocks.pop(0).render())
        items.append(card)
    items += [block.render() for block in blocks]
    return [item for item in items if item]
