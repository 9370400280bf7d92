"""The addresses that a timeline leads to: other parts of the run, closer and wider ones, and its other form."""

from __future__ import annotations

from dashboard import url_helpers
from dashboard.cards.timeline.window import TimeWindow
from toolcards.models import Run


class TimelineLinks:
    """Builds the addresses of one timeline; they keep its form, a picture or a table."""

    def __init__(self, run: Run, *, as_table: bool) -> None:
        self._run, self._as_table = run, as_table

    @property
    def whole_url(self) -> str:
        """Return the newest calls of the run, which follow the clock."""
        return self._build()

    def build_around(self, ordinal: int) -> str:
        """Return the part around a call, "" for none."""
        return self._build(around=ordinal) if ordinal else ""

    def build_zoom(self, window: TimeWindow, latest: int) -> dict[str, str]:
        """Return the addresses of other windows.

        A window of the `latest` milliseconds gets longer or shorter up to now. `pace` holds a window that follows the
        clock, and lets another one follow it.
        """
        neighbors = window.build_neighbors()
        urls = {name: self._build_window(neighbor) for name, neighbor in neighbors.items()}
        urls["now"] = self._build(latest=window.quarter)
        if latest:
            urls |= {name: self._build(latest=neighbors[name].length) for name in ("closer", "wider")}
        urls["pace"] = urls["shown"] if latest else self._build(latest=window.length)
        return urls

    def build_other_form(self, window: TimeWindow | None, latest: int, around: int) -> str:
        """Return the same part of the run in its other form."""
        links = TimelineLinks(self._run, as_table=not self._as_table)
        if latest:
            return links._build(latest=latest)
        return links._build_window(window) if window else links._build(around=around)

    def _build_window(self, window: TimeWindow) -> str:
        return self._build(start=window.start, end=window.end)

    def _build(self, **part: int) -> str:
        query = {"table": int(self._as_table), **part}
        return url_helpers.build_run_url(
            self._run.name, self._run.source.name, tab="timeline", **{key: query[key] for key in query if query[key]}
        )
