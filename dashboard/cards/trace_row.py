"""A phase of the step log as a table row, written without the template engine, since a page has a thousand.

All values are escaped where they are inserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.icons import render_time
from dashboard.cards.safe_text import mark_html
from toolcards.gate import TraceStep


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A phase in words."""

    step: TraceStep
    words: str
    st: str
    link: str
    length: str
    details: list[tuple[str, str]]

    @property
    def html(self) -> SafeString:
        """Return the row of the table."""
        step, outcome = self.step, escape(str(self.step.outcome))
        details = "\n".join(
            f'<span class="muted">{escape(name)}</span> {mark_html(value)}' for name, value in self.details
        )
        row = (
            f'<tr data-phase="{escape(step.phase)}">\n'
            f'<td class="nowrap">{render_time(step.at) if step.at else ""}</td>\n'
            f'<td class="nowrap">{escape(self.words)}</td>\n'
            f"<td>{self._render_call()}</td>\n"
            f'<td class="nowrap"><span class="badge outline" data-st="{escape(self.st)}">{outcome}</span></td>\n'
            f'<td class="num nowrap">{escape(self.length)}</td>\n'
            f"<td>{details}</td>\n</tr>\n"
        )
        return mark_safe(row)  # noqa: S308 - each value was escaped where it was put in

    def _render_call(self) -> str:
        if not self.link:
            return ""
        link = f'<a href="{escape(self.link)}"><code>{mark_html(self.step.tool)}</code></a>'
        attempt = self.step.attempt
        return f'{link} <span class="muted">attempt {attempt}</span>' if attempt > 1 else link
