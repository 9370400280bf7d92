"""The log in the admin: runs, calls and events, read-only."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Substr
from django.http import HttpRequest
from django.utils.html import format_html

from dashboard.cards import safe_text
from toolcards.core.calls.call_json import build_call_json
from toolcards.encryption import UnreadableText, get_redactor
from toolcards.models import Event, Run, ToolCall
from toolcards.models.runs import FACT_HEAD


def format_time(seconds: float) -> str:
    """Format epoch seconds for people."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC" if seconds else "—"


def indent_json(text: str) -> str:
    """Return stored JSON with its lines indented, as text."""
    try:
        indented_text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        indented_text = text
    return format_html("<pre>{}</pre>", safe_text.mark_html(indented_text[:200_000]))


def _mask_fact(fact: str) -> str:
    """Return the fact with secrets masked.

    Pieces of a text are left out, because each may hold half of a secret.
    """
    kind = fact[9:21]
    if kind.startswith(("input-delta", "text-delta")):
        return json.dumps({"type": kind.split('"')[0], "text": f"({len(fact)} characters, not shown)"})
    return _mask_json(fact)


def _mask_json(text: str) -> str:
    """Return the JSON with secrets masked, by its structure rather than as text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return get_redactor().text(text)
    return get_redactor().text(json.dumps(get_redactor().value(value), ensure_ascii=False))


def _is_detail_page(request: HttpRequest) -> bool:
    """Return whether the request shows one object rather than the list."""
    return bool(request.resolver_match and "object_id" in request.resolver_match.kwargs)


class ReadOnlyAdmin(admin.ModelAdmin):
    """The base of tables that only the gate writes."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse."""
        return False


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, newest first."""

    list_display = ("name", "source", "agent", "protocol", "mode", "status", "calls", "started_at", "ended_at")
    list_filter = ("status", "mode", "protocol", "source")
    list_select_related = ("source",)
    search_fields = ("name", "agent", "title")
    ordering = ("-id",)
    fields = (
        "name", "source", "agent", "title", "protocol", "mode", "status", "reason", "started_at", "updated_at",
        "ended_at", "calls", "shown_counts", "shown_context",
    )  # fmt: skip

    @admin.display(description="calls by state")
    def shown_counts(self, run: Run) -> str:
        """Return the number of calls by state."""
        return indent_json(run.counts)

    @admin.display(description="context")
    def shown_context(self, run: Run) -> str:
        """Return the run's context."""
        if type(run.context) is UnreadableText:
            return "It cannot be decrypted: the encryption key is missing."
        return indent_json(_mask_json(run.context))


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    """Calls in their latest state, newest first."""

    list_display = (
        "shown_tool",
        "shown_call_id",
        "state",
        "kind",
        "run",
        "run__source",
        "agent",
        "waiting",
        "started_at",
        "finished_at",
        "rev",
    )
    list_filter = ("state", "waiting", "kind", "soft", "removed")
    list_select_related = ("run__source",)
    search_fields = ("tool", "call_id", "agent", "run__name")
    ordering = ("-id",)
    fields = (
        "tool", "call_id", "run", "ordinal", "state", "kind", "agent", "waiting", "soft", "removed", "rev", "seq",
        "started_at", "requested_at", "finished_at", "shown_card",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolCall]:
        """Leave the bodies out of the list."""
        rows = super().get_queryset(request)
        return (
            rows
            if request.resolver_match and "object_id" in request.resolver_match.kwargs
            else rows.defer("card", "text")
        )

    @admin.display(description="tool", ordering="tool")
    def shown_tool(self, call: ToolCall) -> str:
        """Return the tool, with hidden characters marked."""
        return safe_text.mark_text(call.tool)

    @admin.display(description="call", ordering="call_id")
    def shown_call_id(self, call: ToolCall) -> str:
        """Return the sender's id of the call, with hidden characters marked."""
        return safe_text.mark_text(call.call_id)

    @admin.display(description="card")
    def shown_card(self, call: ToolCall) -> str:
        """Return the complete card, as the API returns it."""
        payload = build_call_json(call.as_shown_card(), run=call.run.name, id=call.public_id)
        return indent_json(json.dumps(payload, default=str))


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The log, newest first."""

    list_display = ("run", "run__source", "seq", "moment", "ordinal", "type_of_fact", "applied")
    list_filter = ("applied",)
    list_select_related = ("run__source",)
    search_fields = ("run__name",)
    ordering = ("-id",)
    fields = ("run", "seq", "moment", "ordinal", "applied", "shown_fact")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        """Leave the bodies out of the list, which shows only types."""
        rows: QuerySet[Event] = super().get_queryset(request).annotate(beginning=Substr("fact", len(FACT_HEAD) + 1, 40))
        return rows if _is_detail_page(request) else rows.defer("fact")

    @admin.display(description="at", ordering="id")
    def moment(self, event: Event) -> str:
        """Return when the event was written."""
        return format_time(event.at)

    @admin.display(description="fact")
    def type_of_fact(self, event: Any) -> str:
        """Return the type of the fact, which is not encrypted."""
        return str(event.beginning).partition('"')[0]

    @admin.display(description="fact")
    def shown_fact(self, event: Event) -> str:
        """Return the complete fact."""
        if type(event.fact) is UnreadableText:
            return "It cannot be decrypted: the encryption key is missing."
        return indent_json(_mask_fact(event.fact))
