"""A run's step log as a page: each phase of each call in a line, read from the event log.

A page shows a window of them, so that it stays light. Rows are written without the template engine. All values are
escaped where they are inserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from dashboard import url_helpers
from dashboard.cards.safe_text import mark_html
from dashboard.cards.times import format_duration, render_time
from toolcards.client.common import error_codes
from toolcards.core.calls.facts import InputDelta, TextDelta
from toolcards.core.runs.run_context import FAULT, OVER_QUOTA, SkippedFrames
from toolcards.gate import TraceStep, iterate_steps
from toolcards.models import Event, Run

# Skipped frames in words, for the pages of runs and sources.
MAX_KINDS = 10  # kinds that are named
_CAUSES = {
    FAULT: "because of a fault of the server, which its log names",
    OVER_QUOTA: "because the source had sent as much as it may in an hour",
}


@dataclass(frozen=True, slots=True)
class SkippedFramesView:
    """A sentence, the most frequent kinds with their counts, and the count of the others."""

    sentence: str
    kinds: list[tuple[str, int]]
    other_count: int


def describe_skipped_frames(frames: SkippedFrames) -> SkippedFramesView | None:
    """Return the words for these frames; None if none was skipped."""
    if not frames.total:
        return None
    frequent_kinds = frames.by_number()[:MAX_KINDS]
    known_causes = {kind: frames.kinds[kind] for kind in _CAUSES if kind in frames.kinds}
    unknown_count = frames.total - sum(known_causes.values())
    sentence = _describe_unknown(unknown_count, len(frames.kinds) - len(known_causes), bool(frames.other))
    for kind, number in known_causes.items():
        joint = ", and" if "because" in sentence else " and"
        clause = f"{joint} {_count(number)}" if sentence else f"{_count(number)} {_be(number)} skipped"
        sentence = f"{sentence}{clause} {_CAUSES[kind]}"
    return SkippedFramesView(sentence, frequent_kinds, frames.total - sum(number for _, number in frequent_kinds))


def _describe_unknown(number: int, kinds: int, has_more: bool) -> str:
    if not number:
        return ""
    of_kinds = f"{'more than ' if has_more else ''}{kinds} unknown kind{'s' if kinds != 1 else ''}"
    return f"{_count(number)} of {of_kinds} {_be(number)} skipped"


def _count(number: int) -> str:
    return f"{number} frame{'s' if number != 1 else ''}"


def _be(number: int) -> str:
    return "were" if number != 1 else "was"


MAX_EVENTS = 20_000
MAX_LINES = 80  # on a page

_PHASE_LABELS = {
    "run": "Run", "step": "Step", "resolve": "Input complete", "validate": "Input checked", "repair": "Repaired",
    "before": "Plugins consulted", "gate": "Policy decided", "ask": "Approval requested", "answer": "Approval decided",
    "claim": "Approval used",
    "execute": "Tool ran", "output": "Result checked", "after": "Plugins notified", "settled": "Settled",
}  # fmt: skip
_STATUS_COLORS = {
    "ok": "ok", "claimed": "ok", "allow": "ok", "approved": "ok", "error": "err", "deny": "deny", "denied": "deny",
    "waiting": "ask",
    "ask": "ask", "aborted": "off", "unknown": "off", "truncated": "off", "repaired": "run",
}  # fmt: skip


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
            f'<td class="wide">{details}</td>\n</tr>\n'
        )
        return mark_safe(row)  # noqa: S308 - each value was escaped where it was put in

    def _render_call(self) -> str:
        if not self.link:
            return ""
        link = f'<a href="{escape(self.link)}"><code>{mark_html(self.step.tool)}</code></a>'
        attempt = self.step.attempt
        return f'{link} <span class="muted">attempt {attempt}</span>' if attempt > 1 else link


def list_trace_lines(run: Run, skip: int = 0) -> dict[str, Any]:
    """Return a page of the run's phases, oldest first.

    `skip`: how many are on earlier pages.
    """
    events = Event.objects.filter(run=run).but_type(TextDelta.type).but_type(InputDelta.type)
    events = events.order_by("seq")[:MAX_EVENTS]
    all_steps = iterate_steps(events.iterator(chunk_size=500))
    steps = list(islice(all_steps, skip, skip + MAX_LINES + 1))  # the rest is not decrypted
    earlier = max(0, skip - MAX_LINES) if skip else None
    later = skip + MAX_LINES if len(steps) > MAX_LINES else None
    lines = [_build_line(run, step) for step in steps[:MAX_LINES]]
    return {"steps": lines, "earlier": _build_page_url(run, earlier), "later": _build_page_url(run, later)}


def _build_page_url(run: Run, skip: int | None) -> str:
    """Return the address of a page of steps, "" for none."""
    if skip is None:
        return ""
    return url_helpers.build_run_url(run.name, run.source.name, tab="steps", skip=skip)


def _build_line(run: Run, step: TraceStep) -> TraceLine:
    words = _PHASE_LABELS.get(step.phase, step.phase)
    link = url_helpers.build_call_url(f"{run.pk}-{step.ordinal}") if step.ordinal else ""
    start = (step.more or {}).get("since")
    seconds = step.ms / 1000 if step.ms is not None else step.at - start if start and step.at else None
    length = "" if seconds is None else format_duration(seconds)
    return TraceLine(step, words, _STATUS_COLORS.get(step.outcome, ""), link, length, list(_describe_details(step)))


def _describe_details(step: TraceStep) -> list[tuple[str, str]]:
    details: list[tuple[str, str]] = []
    if step.code:
        title = error_codes.get_denial_title(step.code, (step.more or {}).get("by", {}).get("kind", ""))
        details.append(("code", f"{step.code} ({title})" if title else step.code))
    for name, value in (step.more or {}).items():
        if name == "since" or (value in (None, "", 0, []) and name not in {"results"}):
            continue
        details.append((name.replace("_", " "), _format_detail(name, value)))
    return details


def _format_detail(name: str, value: Any) -> str:
    if name.endswith("_sha"):
        return f"{str(value)[:12]}…"
    if isinstance(value, dict):
        return ", ".join(str(part) for part in value.values() if part)
    if isinstance(value, list):
        text = ", ".join(str(part) for part in value[:20])
        return f"{text} and {len(value) - 20} more" if len(value) > 20 else text
    return str(value)
