"""The boards of the Tools and Agents pages: the numbers of each row, counted now and then while someone watches.

Counting up to 20,000 calls takes long, so it happens in a thread of its own: no card waits for it.
"""

from __future__ import annotations

import logging
import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from django.db import connections
from django.http import QueryDict
from django.template.loader import render_to_string

from dashboard.cards.rendering import build_part
from dashboard.live.base_board import PENDING_SECONDS, BoardNews, LiveBoard
from dashboard.live.frames import Frame
from dashboard.runs.call_statistics import CallStatistics, TableChoice
from toolcards.database import report_outage

log = logging.getLogger(__name__)
INTERVAL = 5.0  # seconds between the beginnings of two counts of a board
_worker = ThreadPoolExecutor(1, thread_name_prefix="statistics")  # for all boards: one count at a time


@dataclass(frozen=True, slots=True)
class Count:
    """The parts of one count: the rows by their ids, all of them if `is_complete`, and the line below them."""

    rows: dict[str, str]
    footer: str
    is_complete: bool


class StatisticsBoard(LiveBoard):
    """The rows of a page. Each is sent when its numbers changed."""

    every = False

    def __init__(self, page: str, query: str) -> None:
        super().__init__()
        self.choice = TableChoice.read(page, QueryDict(query))
        self._sent_parts: dict[str, str] = {}  # what all watchers have
        self._row_ids: set[str] = set()  # of the last count
        self._count: Future[Count] | None = None

    def render_all(self) -> Frame:
        """Return nothing: the page has its rows.

        It may be older than the last parts, so the next count sends all of them.
        """
        self._sent_parts = {}
        self._stale_since = self._stale_since or time.monotonic()
        return Frame({})

    def render_changes(self, news: BoardNews) -> Frame:
        """Return the rows that a finished count changed.

        Begin the next count if it is time.
        """
        if news.runs:
            self._stale_since = self._stale_since or time.monotonic()
        changed_parts = self._take_count()
        if self._count is None and self._is_due:
            self._drawn_at, self._stale_since = time.monotonic(), 0.0
            self._count = _worker.submit(_count_calls, self.choice)
        return Frame(changed_parts)

    @property
    def pending_seconds(self) -> float:
        """Return the seconds until the count is due, or infinity."""
        return PENDING_SECONDS if self._count is not None or self._is_due else math.inf

    @property
    def _is_due(self) -> bool:
        return bool(self._stale_since) and time.monotonic() - self._drawn_at >= INTERVAL

    def _take_count(self) -> dict[str, str]:
        """Return the parts of a finished count that not all watchers have; a count that failed is repeated."""
        if self._count is None or not self._count.done():
            return {}
        count, self._count = self._count, None
        try:
            result = count.result()
        except Exception as error:  # other pages stay live
            self._stale_since = time.monotonic()
            if not report_outage(error):
                log.exception("live: counting the calls of a page failed; trying again")
            return {}
        # A row without calls is in no count: its last numbers are too old, such as those of the last hour.
        empty_ids = self._row_ids - result.rows.keys() if result.is_complete else set()
        self._row_ids = set(result.rows)
        parts = result.rows | {"footer": result.footer}
        changed_parts = {name: html for name, html in parts.items() if html != self._sent_parts.get(name)}
        self._sent_parts = parts
        return changed_parts | {row_id: _render_row(row_id, CallStatistics("")) for row_id in empty_ids}


def _count_calls(choice: TableChoice) -> Count:
    try:
        table = choice.compute()
    finally:
        connections.close_all()
    footer = render_to_string("calls/_statistics_footer.html", table.footer)
    return Count(
        {row.row_id: _render_row(row.row_id, row) for row in table.rows},
        build_part("#statistics-counted", "outerMorph", footer.strip()),
        is_complete=not table.left_out,
    )


def _render_row(row_id: str, row: CallStatistics) -> str:
    html = render_to_string("calls/_statistics_numbers.html", {"row_id": row_id, "row": row})
    return build_part("#statistics-body", "numbers", html)
