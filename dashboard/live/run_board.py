"""The board of one run: its cards and the text between them, its timeline, or one call of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.template.loader import render_to_string

from dashboard.cards import rendering
from dashboard.cards.rendering import PIECE_MARK, build_part, place_card, place_piece
from dashboard.cards.timeline.timeline import build_timeline
from dashboard.cards.trace import event_log
from dashboard.live.base_board import LiveBoard
from dashboard.live.frames import Frame
from dashboard.runs import tables, views
from dashboard.runs.narration import Narration, TextBlock
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.models import Run, ToolCall

MAX_INPUTS = 1_000  # streaming inputs of a board whose sent text is kept
_SELECT_SHOWN = (
    "SELECT agent, protocol, mode, status, reason, ended_at, calls, counts, skipped, skipped_kinds,"
    " (SELECT COUNT(*) FROM toolcards_toolcall WHERE run_id = run.id AND soft AND state = 'output-error')"
    " FROM toolcards_run AS run WHERE id = %s"
)


class SentInputs:
    """The cards of streaming inputs that all watchers have, so that growth is sent without the rest of the card."""

    def __init__(self) -> None:
        self._cards: dict[int, Card] = {}

    def place_call(self, call: ToolCall) -> tuple[str, str]:
        """Return name and part of a changed call: piece or card."""
        before, name = self._cards.pop(call.ordinal, None), str(call.ordinal)
        if call.removed or call.state != ToolCallState.INPUT_STREAMING:
            return name, place_card(call)
        card = call.as_shown_card()
        if len(self._cards) >= MAX_INPUTS:
            self._cards.clear()
        self._cards[call.ordinal] = card
        piece = place_piece(call, before, card) if before is not None else ""
        return (f"{name}{PIECE_MARK}{call.seq}", piece) if piece else (name, place_card(call))


class RunBoard(LiveBoard):
    """A run's page: its cards in order, and its header; or its timeline; or one call of it, whole.

    The view `head` is for pages of which only the header changes. `latest`: the milliseconds up to now that the
    timeline shows, 0 for the newest calls; `as_table`: as a table.
    """

    def __init__(self, run: int, view: str = "", call: int = 0, latest: int = 0, *, as_table: bool = False) -> None:
        super().__init__()
        self.run, self.view, self.call = run, view, call
        self.latest, self.as_table = latest, as_table
        self.runs = frozenset({run})
        self._texts = Narration(run) if not view and not call else None
        self._inputs = SentInputs()
        self._sent_head: tuple[Any, ...] = ()  # what the header shows that all watchers have; () if some have another
        self._unsent: dict[int, TextBlock] = {}  # blocks that changed since everybody was sent them
        self._newest_ordinal = 0  # of the calls whose text before them was sent

    def render_all(self) -> Frame:
        """Return the cards, the text between them, and the header."""
        self._read_texts()
        cards, before = self._render_cards(), self._sent_head
        head = self._render_head()
        self._sent_head = before if before == self._sent_head else ()
        return Frame({**cards.parts, **head}, cards.seqs)

    def _render_cards(self) -> Frame:
        """Return the newest calls and the text between them."""
        if self.call:
            rows = ToolCall.objects.filter(run=self.run, ordinal=self.call).select_related("run", "run__source")
            return Frame(self._render_call_parts(rows))
        if self._texts is None:
            return Frame({})
        run = Run.objects.select_related("source").get(pk=self.run)
        page = views.build_run_page(run, self._texts.blocks.values(), with_removed=True)
        parts = {str(card.ordinal): place_card(card.call, card.form) for card in page.cards}
        seqs = {str(card.ordinal): card.call.seq for card in page.cards}
        # A block ends without text of its own; the next call or block, which is newer, ends it.
        starts = [block.seq for block in page.blocks]
        seqs |= {f"t{start}": end for start, end in zip(starts, [*starts[1:], run.seq], strict=False)}
        return Frame(parts | _render_texts(page.blocks), seqs)

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return those of this run."""
        own_calls = [call for call in calls if call.run_id == self.run]
        if self.call:
            return self._render_call_parts(call for call in own_calls if call.ordinal == self.call)
        if self.view or not own_calls:
            return {}
        return self._render_earlier_texts(own_calls) | dict(map(self._inputs.place_call, own_calls))

    def _render_earlier_texts(self, calls: list[ToolCall]) -> dict[str, str]:
        """Return what the agent wrote before new calls: it would move them if it came later."""
        newest = max(call.ordinal for call in calls)
        if newest <= self._newest_ordinal:
            return {}
        self._newest_ordinal = newest
        return self._render_unsent_texts()

    def render_throttled(self) -> dict[str, str]:
        """Return the header, new text and, if it is open, the timeline."""
        return self._render_unsent_texts() | self._render_head(self._sent_head)

    def _render_unsent_texts(self) -> dict[str, str]:
        self._read_texts()
        unsent, self._unsent = self._unsent, {}
        return _render_texts(unsent.values())

    def _read_texts(self) -> None:
        self._unsent |= {block.seq: block for block in self._texts.read()} if self._texts else {}

    def _render_head(self, sent_head: tuple[Any, ...] = ()) -> dict[str, str]:
        """Return the header, unless it shows what was sent, and the timeline if it is open."""
        if self.call:
            return {}
        self._sent_head = _read_shown_columns(self.run)
        parts: dict[str, str] = {}
        if self._sent_head == sent_head and self.view != "timeline":
            return parts
        run = Run.objects.select_related("source").get(pk=self.run)
        if self._sent_head != sent_head:
            html = render_to_string("runs/_head.html", tables.build_run_header(run))
            parts["head"] = build_part("#run-head", "outerMorph", html)
        if self.view == "timeline":
            html = render_to_string("runs/_timeline.html", self._build_timeline(run))
            parts["timeline"] = build_part("#timeline", "innerMorph", html)
        return parts

    def _build_timeline(self, run: Run) -> dict[str, Any]:
        return build_timeline(run, latest=self.latest, as_table=self.as_table)

    @staticmethod
    def _render_call_parts(calls: Iterable[ToolCall]) -> dict[str, str]:
        parts = {}
        for call in calls:
            story = render_to_string("calls/_event_log.html", {"story": event_log.list_event_lines(call), "call": call})
            parts = {
                "card": build_part("#board", "place", rendering.render_uncached(call, full=True)),
                "story": build_part("#story", "innerMorph", story),
            }
        return parts


def _read_shown_columns(run: int) -> tuple[Any, ...]:
    """Return the columns of a run that its header shows. A run with other agents has another number of calls."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_SHOWN, [run])
        columns: tuple[Any, ...] | None = cursor.fetchone()
    if columns is None:
        raise Run.DoesNotExist
    return columns


def _render_texts(blocks: Iterable[TextBlock]) -> dict[str, str]:
    """Return the newest blocks that are not blank."""
    rendered_blocks = ((block.seq, block.render()) for block in list(blocks)[-views.MAX_BLOCKS :])
    return {f"t{seq}": build_part("#board", "place", html) for seq, html in rendered_blocks if html}
