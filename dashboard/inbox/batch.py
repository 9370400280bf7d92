"""Several votes in one request: each is cast for what was shown of its call, and has its own result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST

from dashboard.accounts import sign_in_log
from dashboard.accounts.access import VOTE, api, body_of, by_body, fault, needs
from dashboard.cards import rendering
from dashboard.cards.rendering import build_part
from dashboard.inbox import groups
from dashboard.inbox.forms import BallotForm, cast_vote, check_lasting_answer, write_fields
from dashboard.inbox.views import HttpResponseSeeOther, find_return_path, is_htmx_request
from toolcards.core.calls.card import Card
from toolcards.core.risk.assessment import assess_call_risk
from toolcards.core.summaries.summary import summarize
from toolcards.gate import RequestRefused
from toolcards.models import Approval, ToolCall

MAX_VOTES = groups.MAX_GROUP_SIZE
APPROVING_DECISIONS = ("approve", "edit")
TOO_RISKY_TEXT = "High risk: approve this call on its own card."
MIXED_RISKS_TEXT = "These calls differ in risk. Approve calls of one risk level at a time."
MISSING_FIELDS_TEXT = "A vote must have approval, decision, rev and args_sha256."


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one vote. `message`: the gate's message if it did not count; `call`: missing if it was deleted."""

    approval: str
    status: int
    code: str = ""
    message: str = ""
    card: Card | None = None
    call: ToolCall | None = None

    @property
    def summary(self) -> str:
        """The call in one line."""
        return summarize(self.card) if self.card else ""

    @property
    def state(self) -> str:
        """Return the approval's current state."""
        return self.card.approval.state if self.card and self.card.approval else ""

    def json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        if self.status == 200:
            return {"approval": self.approval, "status": 200, "state": self.state, "rev": self.card and self.card.rev}
        return {"approval": self.approval, "status": self.status, "code": self.code, "message": self.message}


class MixedBatch(Exception):
    """The calls cannot be answered together; the message gives the reason."""


# ---------------------------------------------------------------- by form


@require_POST
@needs(VOTE)
def _vote_by_form(request: HttpRequest) -> HttpResponse:
    """Vote on the selected calls, with one decision and one reason."""
    shared_fields = {"decision": request.POST.get("answer", ""), "reason": request.POST.get("one_reason", "")}
    ballots = [_parse_ticket(ticket) | shared_fields for ticket in request.POST.getlist("pick")]
    try:
        if shared_fields["decision"] not in ("approve", "deny"):
            raise MixedBatch("Choose approve or deny.")
        if not ballots:
            raise MixedBatch("Nothing is selected, so nothing was answered.")
        results = cast_votes(request, ballots)
    except MixedBatch as refused:
        return _render_results(request, [], str(refused), 422)
    accepted_count = sum(result.status == 200 for result in results)
    return _render_results(
        request,
        results,
        summarize_results(results, shared_fields["decision"]),
        200 if accepted_count else results[0].status,
    )


def _parse_ticket(ticket: str) -> dict[str, Any]:
    """Return the parts of a selected call's ticket (`GroupItem.ticket`)."""
    fields = dict(zip(("approval", "rev", "args_sha256", "view_sha256"), ticket.split(" "), strict=False))
    return {name: "" if value == "-" else value for name, value in fields.items()}


def summarize_results(results: list[BatchResult], decision: str) -> str:
    """Return in one sentence which votes counted and which did not."""
    verb = {"approve": "approved", "deny": "denied"}.get(decision, "answered")
    accepted_count = sum(result.status == 200 for result in results)
    rejection_counts = Counter(
        _SHORT_REASONS.get(result.code, "not counted") for result in results if result.status != 200
    )
    return (
        ", ".join([f"{accepted_count} {verb}", *(f"{count} {word}" for word, count in rejection_counts.items())]) + "."
    )


_CHANGED = "changed since you saw them"
_SHORT_REASONS = {
    "already_decided": "already decided", "stale_rev": _CHANGED, "view_stale": _CHANGED, "args_mismatch": _CHANGED,
    "expired": "expired", "run_ended": "withdrawn", "superseded": "replaced",
    "high_risk": "too risky to approve together", "reason_required": "missing a required reason",
}  # fmt: skip


def _render_results(request: HttpRequest, results: list[BatchResult], line: str, status: int) -> HttpResponse:
    if is_htmx_request(request):
        return HttpResponse(_render_parts(request, results, line), status=status)
    if status == 200 and all(result.status == 200 for result in results):
        messages.success(request, line, extra_tags="ok")
        return HttpResponseSeeOther(find_return_path(request))
    context = {"results": results, "line": line, "next": find_return_path(request), "status": status}
    return render(request, "approvals/answered.html", context, status=status)


def _render_parts(request: HttpRequest, results: list[BatchResult], line: str) -> str:
    """Return the changed parts of the page: results, remaining groups, answered cards."""
    token = get_token(request)
    results_html = render_to_string("approvals/_results.html", {"results": results, "line": line})
    groups_html = render_to_string("approvals/_groups.html", groups.build_groups_context(), request)
    changed_parts = (
        rendering.render_for_reader(result.call, token=token) for result in results if result.call is not None
    )
    card_parts = (build_part("#board", "renew", str(card)) for card in changed_parts)
    return (
        build_part("#batch-said", "innerHTML", results_html)
        + build_part("#batch", "innerMorph", groups_html)
        + "".join(card_parts)
    )


# ---------------------------------------------------------------- for programs


@api(VOTE, "POST")
def vote_by_json(request: HttpRequest) -> HttpResponse:
    """Cast the votes of `{"votes": [...]}`; return the result of each."""
    try:
        body = body_of(request)
    except (ValueError, RecursionError):
        return fault(400, "not_json", "The body is not JSON.")
    ballots = body.get("votes") if isinstance(body, dict) else None
    if not isinstance(ballots, list) or len(ballots) > MAX_VOTES:
        return fault(422, "invalid_votes", f"Send `votes`, a list of up to {MAX_VOTES} votes.")
    try:
        results = cast_votes(request, [write_fields(ballot) if isinstance(ballot, dict) else {} for ballot in ballots])
    except MixedBatch as refused:
        return fault(422, "invalid_votes", str(refused))
    return JsonResponse({"results": [ballot.json() for ballot in results]})


votes = by_body(_vote_by_form, vote_by_json)


# ---------------------------------------------------------------- one after the other


def cast_votes(request: HttpRequest, ballots: Sequence[Mapping[str, Any]]) -> list[BatchResult]:
    """Cast all these votes independently.

    A rejected vote does not stop the others. Raises `MixedBatch` before any vote if there are too many, or if calls of
    different risks are approved.
    """
    if len(ballots) > MAX_VOTES:
        raise MixedBatch(f"You can answer up to {MAX_VOTES} calls at once.")
    calls = _load_calls(str(ballot.get("approval", "")) for ballot in ballots)
    levels = {pk: assess_call_risk(call).level for pk, call in calls.items()}
    forms = [(str(ballot.get("approval", "")), BallotForm(ballot)) for ballot in ballots]
    yes = {pk for pk, form in forms if _is_approving(form)}
    if len({levels[pk] for pk in yes & levels.keys()}) > 1:
        raise MixedBatch(MIXED_RISKS_TEXT)
    return [_cast_vote(request, pk, form, calls, levels) for pk, form in forms]


def _is_approving(form: BallotForm) -> bool:
    return form.is_valid() and form.cleaned_data["decision"] in APPROVING_DECISIONS


def _cast_vote(
    request: HttpRequest, pk: str, form: BallotForm, calls: dict[str, ToolCall], levels: dict[str, str]
) -> BatchResult:

    def build_result(status: int, code: str, message: str) -> BatchResult:
        call = calls.get(pk)
        return BatchResult(pk, status, code, message, call.as_shown_card() if call else None, call)

    if not form.is_valid():
        return build_result(422, "invalid_vote", MISSING_FIELDS_TEXT)
    if pk not in calls:
        return build_result(404, "not_found", "Approval not found.")
    if levels[pk] == "high" and _is_approving(form):
        return build_result(422, "high_risk", TOO_RISKY_TEXT)
    try:
        ballot = form.ballot(pk, signed_in_at=sign_in_log.get_sign_in_time(request))
        check_lasting_answer(request, ballot, calls[pk])
        cast_vote(request, ballot)
    except RequestRefused as refused:
        return _reload_result(pk, build_result(refused.status, refused.code, refused.message))
    return _reload_result(pk, build_result(200, "", ""))


def _reload_result(pk: str, result: BatchResult) -> BatchResult:
    """Return the result with the call's current card."""
    call = _load_calls([pk]).get(pk)
    card = call.as_shown_card() if call else None
    return BatchResult(pk, result.status, result.code, result.message, card, call)


def _load_calls(approvals: Iterable[str]) -> dict[str, ToolCall]:
    pks = {pk for pk in approvals if pk.isascii() and pk.isprintable()}  # the range of ids in databases
    rows = Approval.objects.filter(pk__in=pks, asked=True).select_related("call", "call__run", "call__run__source")
    return {row.pk: row.call for row in rows}
