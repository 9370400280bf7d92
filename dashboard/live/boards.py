"""The boards of the pages: the first frame for a browser, and the frames for changes. Runs in the hub's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from urllib.parse import parse_qs

from django.template.loader import render_to_string

from dashboard.cards.rendering import build_part, place_card
from dashboard.inbox import groups
from dashboard.inbox import views as inbox_views
from dashboard.inbox.queue_filters import read_filters
from dashboard.live import site_status
from dashboard.live.base_board import THROTTLE_SECONDS, BoardNews, LiveBoard
from dashboard.live.frames import Frame
from dashboard.live.statistics_board import StatisticsBoard
from dashboard.runs import now_page, tables
from dashboard.search.filters import CallFilters, RunFilters
from dashboard.sources import connect
from toolcards.models import ToolCall

RECHECK_SECONDS = 2.0  # between two reads of switches and the count without changes; break-glass ends by the clock


class SentParts:
    """The parts that all watchers of a board have, so that none is sent twice."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self.doubtful = False  # a new watcher has other parts than the others: the next frame has all parts

    def to_newcomer(self, parts: dict[str, str]) -> Frame:
        """Return all parts."""
        self.doubtful = self.doubtful or bool(self._parts) and parts != self._parts
        self._parts = parts
        return Frame(parts)

    def to_all(self, parts: dict[str, str]) -> Frame:
        """Return the parts that changed; in doubt, all of them."""
        before = {} if self.doubtful else self._parts
        self._parts, self.doubtful = self._parts | parts, False
        return Frame({name: html for name, html in parts.items() if html != before.get(name)})


class StatusBoard(LiveBoard):
    """The header of every page: waiting calls, active switches and failures. Sent only when it changes."""

    every = False

    def __init__(self) -> None:
        super().__init__()
        self._sent_parts = SentParts()
        self._checked_at = time.monotonic()

    def render_all(self) -> Frame:
        """Return both, whether or not they changed."""
        return self._sent_parts.to_newcomer(self._count() | self._render_banner())

    def render_changes(self, news: BoardNews) -> Frame:
        """Return the parts that changed.

        The count is read again after news of calls that people are asked about.
        Switches and outages belong to no run, and deletions ring no bell, so all parts are also read periodically.
        """
        check = self._sent_parts.doubtful or time.monotonic() - self._checked_at >= RECHECK_SECONDS
        parts = self._count() if check or any(call.requested_at for call in news.calls) else {}
        if check or news.switched:
            self._checked_at = time.monotonic()
            parts |= self._render_banner()
        return self._sent_parts.to_all(parts)

    @staticmethod
    def _count() -> dict[str, str]:
        html = render_to_string("toolcards/waiting.html", {"waiting": site_status.read_badge()})
        return {"waiting": build_part("#waiting-count", "outerMorph", html.strip())}

    @staticmethod
    def _render_banner() -> dict[str, str]:
        html = render_to_string("emergency/_banner.html", {"banner": site_status.read_banner()})
        return {"banner": build_part("#standing", "innerMorph", html.strip())}


class CallsBoard(LiveBoard):
    """All calls, newest first, as the page's filters say."""

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self.filters = CallFilters.read(query)

    def render_cards(self) -> dict[str, str]:
        """Return the newest page."""
        listed_calls = tables.choose_forms(tables.list_calls(self.filters).calls)
        return {call.row.public_id: place_card(call.row, call.form) for call in listed_calls}

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return the cards that match the filters.

        A card that no longer matches is replaced in place.
        """
        parts = {}
        for call in calls:
            if self.filters.matches(call):
                parts[call.public_id] = place_card(call, known_only=not self.filters.matches_now(call))
        return parts


class WaitingBoard(LiveBoard):
    """Calls that wait for approval, oldest first. Decided cards stay in place until the reader leaves."""

    every = False

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self.filters = read_filters(query)

    def list_calls(self) -> list[ToolCall]:
        """Return the waiting calls that the page shows."""
        return [call for call in tables.list_waiting_calls() if self.passes(call)]

    def passes(self, call: ToolCall) -> bool:
        """Return whether the page's search finds the call."""
        return not self.filters.q or self.filters.says(call)

    def render_cards(self) -> dict[str, str]:
        """Return all waiting calls."""
        return {call.public_id: place_card(call) for call in self.list_calls()}

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return the calls that started or stopped waiting."""
        changed_calls = [call for call in calls if call.requested_at]
        return {
            call.public_id: place_card(call, known_only=not (call.waiting and self.passes(call)))
            for call in changed_calls
        }


class InboxBoard(WaitingBoard):
    """The inbox, with its header line and the groups of similar calls, sent when they changed."""

    def __init__(self, query: str = "") -> None:
        super().__init__(query)
        self._sent_groups = ""  # the groups that all watchers have; "" if a new one has others

    def render_all(self) -> Frame:
        """Return everything."""
        calls = self.list_calls()
        parts = {call.public_id: place_card(call) for call in calls} | self.render_throttled()
        frame = Frame(parts, {call.public_id: call.seq for call in calls})
        if frame.parts["groups"] != self._sent_groups:
            self._sent_groups = ""
        return frame

    def render_changes(self, news: BoardNews) -> Frame:
        """Return the changed parts, without groups that all watchers have."""
        frame = super().render_changes(news)
        groups_part = frame.parts.get("groups")
        if groups_part is None:
            return frame
        if groups_part == self._sent_groups:
            return Frame({name: html for name, html in frame.parts.items() if name != "groups"})
        self._sent_groups = groups_part
        return frame

    def render_throttled(self) -> dict[str, str]:
        """Return the header line with the waiting calls, and their groups."""
        html = render_to_string("approvals/_head.html", {"queue": inbox_views.summarize_queue()})
        return {
            "head": build_part("#waiting-line", "outerMorph", html.strip()),
            "groups": build_part("#batch", "innerMorph", self._render_groups()),
        }

    def _render_groups(self) -> str:
        if not self.filters.q:
            return groups.render_groups()
        return render_to_string("approvals/_groups.html", groups.build_groups_context(self.list_calls()))


class NowBoard(WaitingBoard):
    """The first page: the first calls that wait, what runs, what went wrong."""

    def __init__(self) -> None:
        super().__init__()
        self._placed_ids: frozenset[str] = frozenset()  # calls that every reader of the page was sent

    def render_cards(self) -> dict[str, str]:
        """Return the first calls that wait, as many as the page shows."""
        return {call.public_id: place_card(call) for call in now_page.list_first_waiting_calls()}

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return changed cards, and those that moved up to the first.

        A card is added only if it is among the first that wait.
        """
        changed_calls = [call for call in calls if call.requested_at]
        if not changed_calls:
            return {}
        first_calls = {call.public_id: call for call in now_page.list_first_waiting_calls()}
        moved_up_ids = first_calls.keys() - self._placed_ids
        self._placed_ids = frozenset(first_calls)
        parts = {
            call.public_id: place_card(call, known_only=call.public_id not in first_calls) for call in changed_calls
        }
        return parts | {call_id: place_card(first_calls[call_id]) for call_id in moved_up_ids - parts.keys()}

    def render_throttled(self) -> dict[str, str]:
        """Return everything below the waiting strip."""
        context = now_page.build_now_parts()
        if not context["any"]:
            return {}  # the page itself says how to begin, with this server's address
        return {"now": build_part("#now", "innerMorph", render_to_string("now/_now.html", context))}


class RunsBoard(LiveBoard):
    """The table of runs."""

    every = False

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self.filters = RunFilters.read(query)

    def render_throttled(self) -> dict[str, str]:
        """Return the first page's rows."""
        rows = render_to_string("runs/_rows.html", {"rows": tables.list_run_rows(self.filters)[0]})
        return {"rows": build_part("#runs-body", "rows", rows)}


class ChecklistBoard(LiveBoard):
    """The connect page's checklist. Creating a key rings no bell, so the board is checked with every tick."""

    every = False

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self.source = parse_qs(query).get("source", [""])[0]
        self._sent_parts = SentParts()
        self._looked = 0.0

    def render_all(self) -> Frame:
        """Return the list, whether or not it changed."""
        return self._sent_parts.to_newcomer(self._render_steps())

    def render_changes(self, news: BoardNews) -> Frame:
        """Return the list if a step was made.

        Looked at once a second at most.
        """
        if time.monotonic() - self._looked < THROTTLE_SECONDS:
            return Frame({})
        self._looked = time.monotonic()
        return self._sent_parts.to_all(self._render_steps())

    def _render_steps(self) -> dict[str, str]:
        html = render_to_string("connect/_steps.html", {"steps": connect.list_steps(self.source)})
        return {"steps": build_part("#steps", "outerMorph", html.strip())}


# What `/ws/me/?board=` may ask for.
BOARDS: dict[str, Callable[[str], LiveBoard]] = {
    "now": lambda query: NowBoard(),
    "approvals": InboxBoard,
    "calls": CallsBoard,
    "runs": RunsBoard,
    "connect": ChecklistBoard,
    "tools": lambda query: StatisticsBoard("tools", query),
    "agents": lambda query: StatisticsBoard("agents", query),
}
