"""A call as text for other programs: Markdown, the API's JSON, or a curl command.

All contain what the call's page shows, with masked secrets. Agents' text cannot act as Markdown, because it is in code
spans and code blocks, nor in a shell, because it is ASCII JSON in a here-document that is not expanded.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import safe_text
from dashboard.runs.export import describe_call
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.card import Card
from toolcards.core.text.terminal_sequences import strip_sequences
from toolcards.models import ToolCall

_BACKTICKS = re.compile("`+")


@require_GET
@needs()
def show_markdown(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Return the call as Markdown."""
    call, card = _load_call(run, ordinal)
    page = request.build_absolute_uri(f"/calls/{run}-{ordinal}/")
    return _build_response(build_markdown(call, card, page), "text/plain; charset=utf-8")


@require_GET
@needs()
def show_json(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Return the Call object of the API, indented."""
    call, card = _load_call(run, ordinal)
    payload = build_call_json(card, run=call.run.name, id=call.public_id)
    return _build_response(json.dumps(payload, indent=2) + "\n", "application/json")


@require_GET
@needs()
def show_curl(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Return a shell command that asks for the call again."""
    call, card = _load_call(run, ordinal)
    if not card.has_input:
        raise Http404("The call has no complete input.")
    command = build_curl_command(call, card, request.build_absolute_uri("/api/v1/calls/decide"))
    return _build_response(command, "text/plain; charset=utf-8")


def _load_call(run: int, ordinal: int) -> tuple[ToolCall, Card]:
    calls = ToolCall.objects.not_removed().select_related("run", "run__source")
    call = get_object_or_404(calls, run_id=run, ordinal=ordinal)
    return call, call.as_shown_card()


def _build_response(text: str, content_type: str) -> HttpResponse:
    headers = {
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return HttpResponse(text.encode("utf-8", "backslashreplace"), content_type=content_type, headers=headers)


def build_markdown(call: ToolCall, card: Card, page: str) -> str:
    """Return the call as Markdown (CommonMark); `page` is its address."""
    description = describe_call(call, card)
    title = description["summary"] or card.tool.name
    blocks = [f"### {quote_inline(title)} · {description['label'].word}", quote_inline(card.tool.name)]
    blocks.append("\n".join(f"- {line}" for line in _list_facts(call, card, description, page)))
    if card.error is not None and card.error.message:
        blocks += ["**Error**", quote_block(strip_sequences(card.error.message))]
    for name, text, cut_length in description["parts"]:
        blocks += [f"**{name}**", quote_block(text)]
        if cut_length:
            blocks.append(f"{cut_length:,} more characters are in the JSON.")
    return "\n\n".join(blocks) + "\n"


def build_curl_command(call: ToolCall, card: Card, url: str) -> str:
    """Return a shell command that posts the call's question to `url`.

    It asks in a run of its own, so that the run of the call does not change.
    """
    body: dict[str, Any] = {"run": f"copy-of-{call.public_id}", "call_id": card.call_id}
    if card.agent_path:
        body["agent_path"] = list(card.agent_path)
    tool = {"name": card.tool.name, "source": card.tool.source, "kind": card.tool.kind, "title": card.tool.title}
    body |= {"tool": {name: value for name, value in tool.items() if value}, "args": card.input}
    if card.agent_note:
        body["agent_note"] = card.agent_note
    # JSON escapes all line breaks in texts, so no line of them ends the here-document. It does not escape DEL, which a
    # terminal reads as a key.
    text = json.dumps(body, indent=2).replace("\x7f", "\\u007f")
    return (
        'curl -sS -H "Authorization: Bearer $TOOLCARDS_AGENT_KEY" -H "Content-Type: application/json" \\\n'
        f"  --data-binary @- {shlex.quote(url)} <<'JSON'\n{text}\nJSON\n"
    )


def _list_facts(call: ToolCall, card: Card, description: dict[str, Any], page: str) -> list[str]:
    payload = description["payload"]
    decision, approval = payload["decision"] or {}, payload["approval"] or {}
    facts = [f"Run: {quote_inline(call.run.title or call.run.name)}"]
    if description["agent"]:
        facts.append(f"Agent: {quote_inline(description['agent'])}")
    if card.agent_note:
        facts.append(f"Agent says: {quote_inline(card.agent_note)}")
    if payload["timings"]["started"]:
        facts.append(", ".join(filter(None, (f"Started: {payload['timings']['started']}", description["durations"]))))
    if decision:
        facts.append(f"Policy: {decision['effect']}{_quote_reason(decision.get('reason'))}")
    if approval:
        name = (approval.get("by") or {}).get("name")
        voter = f" by {quote_inline(name)}" if name else ""
        facts.append(f"Approval: {approval['state']}{voter}{_quote_reason(approval.get('reason'))}")
    denial = (payload.get("denied") or {}).get("reason")
    if denial:
        facts.append(f"Denied{_quote_reason(denial)}")
    return [*facts, f"Page: <{page}>"]


def _quote_reason(reason: str | None) -> str:
    return f": {quote_inline(reason)}" if reason else ""


def quote_inline(text: str) -> str:
    """Return a code span of one line; control characters are marked."""
    line = " ".join(safe_text.mark_text(text).split())
    if not line:
        return ""
    fence = "`" * (_find_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def quote_block(text: str) -> str:
    """Return a fenced code block; control characters are marked."""
    body = safe_text.mark_text(text)
    fence = "`" * max(3, _find_longest_run(body) + 1)
    return f"{fence}\n{body}\n{fence}"


def _find_longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
