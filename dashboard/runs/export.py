"""A run as a file: JSON Lines, CSV, or one HTML page that needs no server and runs no scripts.

All contain what the run's page shows: calls that were not removed, with masked secrets.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import labels, safe_text
from dashboard.cards.times import format_duration
from dashboard.runs import tables
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.card import Card
from toolcards.core.summaries.summary import summarize
from toolcards.core.text.terminal_sequences import strip_sequences
from toolcards.models import Run, ToolCall
from toolcards.transports.api.read_api import load_cards

CHUNK = 200  # calls that are read at once
MAX_BODY = 20_000  # characters of one input or output in the HTML file
COLUMNS = (
    "call", "call_id", "agent", "tool", "kind", "state", "cause", "summary", "decision", "decision_reason", "approval",
    "decided_by", "approval_reason", "error", "started", "finished", "writing_ms", "waiting_ms", "running_ms",
)  # fmt: skip
# What spreadsheets read as the beginning of a formula, also after blanks; the last four are full-width signs.
_FORMULA = re.compile(r"[\s'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
# The file must work alone, so its HTML contains styles, unlike pages of the server.
STYLE = mark_safe("""<style>
:root {
  color-scheme: light dark; --line: light-dark(#dee0e4, #2b2e34); --sunken: light-dark(#f2f3f6, #101317);
  --muted: light-dark(#565b65, #a5a9b2); --st: var(--muted)
}
[data-st=stream] { --st: light-dark(#5d7089, #9eb3ce) } [data-st=run] { --st: light-dark(#284cc3, #7ea2f6) }
[data-st=ask] { --st: light-dark(#a1650f, #f7cb58) } [data-st=ok] { --st: light-dark(#1c7d43, #6ad895) }
[data-st=err] { --st: light-dark(#a70511, #f66d67) } [data-st=deny] { --st: light-dark(#672e63, #ba75be) }
body {
  font: 14px/20px system-ui, sans-serif; max-width: 60rem; margin: 32px auto; padding: 0 16px;
  background: light-dark(#f9fafc, #0c0e13); color: light-dark(#171b22, #eff0f3)
}
h1 { font-size: 20px; line-height: 28px; margin: 0 0 4px } h2 { font-size: 14px; margin: 0 }
article {
  background: light-dark(#fff, #15171c); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px;
  margin: 12px 0
}
p { margin: 4px 0 } .meta { color: var(--muted); font-size: 13px }
code, pre { font: 12.5px/18px ui-monospace, monospace } h2 code { font-size: 13px; font-weight: 600 }
pre { margin: 4px 0 8px; padding: 8px 10px; border-radius: 6px; background: var(--sunken); white-space: pre-wrap }
p, pre, h1, h2 { overflow-wrap: anywhere }
h2::before { content: ""; display: inline-block; width: 8px; height: 8px; margin-right: 8px; border-radius: 50% }
h2::before { background: var(--st) } .note { padding-left: 10px; border-left: 3px solid var(--st) }
summary { cursor: pointer; color: var(--muted); font-size: 13px }
.mark { border: 1px solid currentColor; border-radius: 3px; font-size: 11px; padding: 0 2px }
@media print { article { break-inside: avoid } }
</style>""")


@require_GET
@needs()
def export_json_lines(request: HttpRequest, run: int) -> StreamingHttpResponse:
    """Return one Call object of the API in each line."""
    return _build_file(get_object_or_404(Run, pk=run), _stream_json_lines, "jsonl", "application/x-ndjson")


@require_GET
@needs()
def export_csv(request: HttpRequest, run: int) -> StreamingHttpResponse:
    """Return CSV with a row per call, safe from spreadsheet formulas."""
    return _build_file(get_object_or_404(Run, pk=run), _stream_csv, "csv", "text/csv; charset=utf-8")


@require_GET
@needs()
def export_html(request: HttpRequest, run: int) -> StreamingHttpResponse:
    """Return one page without scripts."""
    row = get_object_or_404(Run.objects.select_related("source"), pk=run)
    return _build_file(row, _stream_html, "html", "text/html; charset=utf-8")


def _build_file(run: Run, stream: Any, extension: str, content_type: str) -> StreamingHttpResponse:
    chunks = (text.encode("utf-8", "backslashreplace") for text in stream(run))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", run.name).strip("-.")[:80] or "run"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{extension}"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return StreamingHttpResponse(chunks, content_type=content_type, headers=headers)


def _list_chunks(run: Run) -> Iterator[list[tuple[ToolCall, Card]]]:
    """Yield the calls in order of appearance, in chunks that limit the memory."""
    last = 0
    while True:
        calls = ToolCall.objects.not_removed().filter(run=run, ordinal__gt=last).select_related("run", "run__source")
        chunk = list(calls.order_by("ordinal")[:CHUNK])
        if not chunk:
            return
        yield list(zip(chunk, load_cards(chunk), strict=True))
        last = chunk[-1].ordinal


def _stream_json_lines(run: Run) -> Iterator[str]:
    for chunk in _list_chunks(run):
        for call, card in chunk:
            payload = build_call_json(card, run=run.name, id=call.public_id)
            yield json.dumps(payload, separators=(",", ":")) + "\n"


def _stream_csv(run: Run) -> Iterator[str]:
    yield "\ufeff" + _format_csv_line(COLUMNS)  # with this mark Excel reads UTF-8
    for chunk in _list_chunks(run):
        yield "".join(_format_csv_line(_list_cells(call, card)) for call, card in chunk)


def _format_csv_line(cells: tuple[Any, ...]) -> str:
    target = io.StringIO()
    csv.writer(target, quoting=csv.QUOTE_ALL).writerow([_protect_cell(cell) for cell in cells])
    return target.getvalue()


def _protect_cell(value: Any) -> str:
    """Return the cell as text; a text that could be a formula begins with an apostrophe."""
    text = "" if value is None else safe_text.mark_text(str(value))
    return f"'{text}" if _FORMULA.match(text) else text


def _list_cells(call: ToolCall, card: Card) -> tuple[Any, ...]:
    payload = build_call_json(card, run=call.run.name, id=call.public_id)
    decision, approval = payload["decision"] or {}, payload["approval"] or {}
    times, durations = payload["timings"], payload["duration_ms"]
    return (
        call.public_id, card.call_id, " › ".join(card.agent_path), card.tool.name, card.tool.kind, payload["state"],
        card.cause, summarize(card), decision.get("effect"), decision.get("reason"), approval.get("state"),
        (approval.get("by") or {}).get("name"), approval.get("reason"),
        strip_sequences(card.error.message) if card.error else None,
        times["started"], times["finished"], durations["writing"], durations["waiting"], durations["running"],
    )  # fmt: skip


def _stream_html(run: Run) -> Iterator[str]:
    yield render_to_string("runs/export_head.html", {"run": run, "row": tables.build_run_row(run), "style": STYLE})
    for chunk in _list_chunks(run):
        for call, card in chunk:
            yield render_to_string("runs/export_call.html", describe_call(call, card))
    yield "</body>\n</html>\n"


def describe_call(call: ToolCall, card: Card) -> dict[str, Any]:
    """Return a call's data for files.

    `parts` are its bodies: name, text, and number of missing characters.
    """
    payload = build_call_json(card, run=call.run.name, id=call.public_id)
    output = payload["output"]
    output = strip_sequences(output) if isinstance(output, str) else output
    parts = [("Input", payload["input"] if card.has_input else payload["input_text"]), ("Output", output)]
    if payload["original_input"] is not None:
        parts.insert(1, ("Input as the agent wrote it", payload["original_input"]))
    durations = [
        f"{name} {format_duration(milliseconds / 1000)}"
        for name, milliseconds in payload["duration_ms"].items()
        if milliseconds is not None
    ]
    return {
        "call": call, "payload": payload, "summary": summarize(card),
        "error": strip_sequences(card.error.message) if card.error else None,
        "label": labels.get_label(card),
        "parts": [(name, *_cut_body(body)) for name, body in parts if body not in (None, "")],
        "durations": ", ".join(durations), "agent": " › ".join(card.agent_path),
    }  # fmt: skip


def _cut_body(body: Any) -> tuple[str, int]:
    """Return the body as text of bounded length, and how many characters are missing."""
    text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
    return text[:MAX_BODY], max(0, len(text) - MAX_BODY)
