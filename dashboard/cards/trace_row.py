"""A phase of the step log as a row of its table, written without the template engine: a page has a thousand of them.

Whatever is put into the row is escaped where it is put in.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.icons import render_time
from dashboard.cards.safe_text import mark_html

if TYPE_CHECKING:
    from dashboard.cards.call_trace import TraceLine


def render_trace_row(line: TraceLine) -> SafeString:
    """Return the table row of a phase."""
    step, outcome = line.step, escape(str(line.step.outcome))
    details = "\n".join(f'<span class="muted">{escape(name)}</span> {mark_html(value)}' for name, value in line.details)
    row = (
        f'<tr data-phase="{escape(step.phase)}">\n'
        f'<td class="nowrap">{render_time(step.at) if step.at else ""}</td>\n'
        f'<td class="nowrap">{escape(line.words)}</td>\n'
        f"<td>{_render_call(line)}</td>\n"
        f'<td class="nowrap"><span class="badge outline" data-st="{escape(line.st)}">{outcome}</span></td>\n'
        f'<td class="num nowrap">{escape(line.length)}</td>\n'
        f"<td>{details}</td>\n</tr>\n"
    )
    return mark_safe(row)  # noqa: S308 - each value was escaped where it was put in


def _render_call(line: TraceLine) -> str:
    if not line.link:
        return ""
    link = f'<a href="{escape(line.link)}"><code>{mark_html(line.step.tool)}</code></a>'
    attempt = line.step.attempt
    return f'{link} <span class="muted">attempt {attempt}</span>' if attempt > 1 else link
