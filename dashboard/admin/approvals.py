"""Approvals in the admin, answered by actions through the gate, with the revision that the list showed."""

from __future__ import annotations

import json

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from dashboard import url_helpers
from dashboard.accounts import sign_in_log
from dashboard.admin.log import ReadOnlyAdmin, format_time, indent_json
from dashboard.cards import safe_text
from dashboard.inbox.forms import cast_vote
from toolcards.core.calls.call_json import build_call_json
from toolcards.encryption import get_redactor
from toolcards.gate import Ballot, RequestRefused
from toolcards.models import Approval


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    """The list of approvals, with actions that vote through the gate."""

    list_display = ("tool", "shown_input", "state", "run", "run__source", "asked_at", "expiry", "answered_by", "id")
    list_display_links = ("id",)
    list_filter = ("state", "asked", "by_kind", "channel", "opener")
    list_select_related = ("call", "run__source")
    search_fields = ("id", "call__tool", "call__call_id", "run__name", "by_name")
    ordering = ("-requested_at", "-id")
    actions = ("approve", "deny")
    fields = (
        "id", "run", "call", "state", "asked", "opener", "channel", "args_sha256", "by_kind", "by_name",
        "shown_reason", "shown_note", "asked_at", "expiry", "decision_time", "shown_card",
    )  # fmt: skip

    def has_vote_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may vote."""
        return request.user.has_perm("toolcards.vote")

    @admin.display(description="tool", ordering="call__tool")
    def tool(self, approval: Approval) -> str:
        """Return the tool with the values that the actions vote for."""
        return format_html(
            '{}<input type="hidden" name="rev-{}" value="{}"><input type="hidden" name="sha-{}" value="{}">',
            safe_text.mark_html(approval.call.tool), approval.pk, approval.call.rev, approval.pk, approval.args_sha256,
        )  # fmt: skip

    @admin.display(description="input")
    def shown_input(self, approval: Approval) -> str:
        """Return the input; only its beginning once it is decided."""
        text = json.dumps(approval.call.as_shown_card().shown_input, ensure_ascii=False)
        return safe_text.mark_html(text if approval.state == "pending" or len(text) < 200 else text[:200] + "…")

    @admin.display(description="asked", ordering="requested_at")
    def asked_at(self, approval: Approval) -> str:
        """Return when the approval was requested."""
        return format_time(approval.requested_at)

    @admin.display(description="until", ordering="expires_at")
    def expiry(self, approval: Approval) -> str:
        """Return when the approval expires."""
        return format_time(approval.expires_at)

    @admin.display(description="decided", ordering="decided_at")
    def decision_time(self, approval: Approval) -> str:
        """Return when the approval was decided."""
        return format_time(approval.decided_at)

    @admin.display(description="by")
    def answered_by(self, approval: Approval) -> str:
        """Return who decided."""
        return approval.by_name or approval.by_kind or "—"

    @admin.display(description="reason")
    def shown_reason(self, approval: Approval) -> str:
        """Return the reason with secrets masked."""
        return safe_text.mark_html(get_redactor().text(approval.reason))

    @admin.display(description="note")
    def shown_note(self, approval: Approval) -> str:
        """Return the note with secrets masked."""
        return safe_text.mark_html(get_redactor().text(approval.note))

    @admin.display(description="card")
    def shown_card(self, approval: Approval) -> str:
        """Return the call's complete card."""
        call = approval.call
        payload = build_call_json(call.as_shown_card(), run=approval.run.name, id=call.public_id)
        return indent_json(json.dumps(payload, default=str))

    @admin.action(description="Approve selected calls", permissions=["vote"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Approval]) -> None:
        """Approve each selected call."""
        self._vote(request, queryset, "approve")

    @admin.action(description="Deny selected calls", permissions=["vote"])
    def deny(self, request: HttpRequest, queryset: QuerySet[Approval]) -> None:
        """Deny each selected call."""
        self._vote(request, queryset, "deny")

    def _vote(self, request: HttpRequest, queryset: QuerySet[Approval], decision: str) -> None:
        count = 0
        for approval in queryset.order_by("requested_at"):
            try:
                cast_vote(request, _build_ballot(request, approval.pk, decision))
                count += 1
            except RequestRefused as refused:
                self.message_user(request, f"{approval.pk}: {refused.message}", messages.WARNING)
        if count:
            self.message_user(request, f"{decision}: {count} {'call' if count == 1 else 'calls'}.", messages.SUCCESS)


def _build_ballot(request: HttpRequest, approval: str, decision: str) -> Ballot:
    """Return the vote for what the list showed; without that, the gate refuses it as stale."""
    rev = url_helpers.read_number(request.POST.get(f"rev-{approval}", ""))
    return Ballot(
        approval=approval,
        decision=decision,
        rev=-1 if rev is None else rev,
        args_sha256=request.POST.get(f"sha-{approval}", ""),
        signed_in_at=sign_in_log.get_sign_in_time(request),
    )
