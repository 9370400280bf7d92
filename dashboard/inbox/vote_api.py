"""Votes of programs that people use, with a personal token or a session: the terms are those of the pages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict

from dashboard.accounts import sign_in_log
from dashboard.accounts.access import VOTE, api, body_of, fault
from dashboard.form_fields import join_errors
from dashboard.inbox.forms import ANSWER, BallotForm, cast_vote, check_lasting_answer, convert_answers, write_fields
from toolcards import gate
from toolcards.gate import RequestRefused
from toolcards.models import Approval
from toolcards.transports.api.api_errors import convert_refusal
from toolcards.transports.approval_json import serialize_approval


@api(VOTE, "POST")
def vote(request: HttpRequest, pk: str) -> HttpResponse:
    """Cast a vote on what its sender has seen.

    Returns the approval with its call.
    The body is the form of the pages, or the same fields as a JSON object. There, `edited_args` and `grant` may be
    JSON values, and a field of an answer may be a list.
    """
    try:
        fields = read_fields(request)
    except (ValueError, RecursionError):
        return fault(400, "not_json", "The body must be a JSON object or a form.")
    form = BallotForm(fields)
    if not form.is_valid():
        return fault(422, "invalid_vote", join_errors(form))
    row = _find_approval(pk)
    if row is None:
        return fault(404, "not_found", "Approval not found.")
    try:
        ballot = form.ballot(pk, signed_in_at=sign_in_log.get_sign_in_time(request))
        if ballot.decision == ANSWER:
            ballot = convert_answers(ballot, row.call, fields)
        if ballot.always:
            check_lasting_answer(request, ballot, row.call)
        cast_vote(request, ballot)
    except RequestRefused as refused:
        problem = convert_refusal(refused)
        return JsonResponse(problem.body, status=problem.status, headers=problem.headers)
    return _answer(pk)


@api(VOTE, "POST")
def undo(request: HttpRequest, pk: str) -> HttpResponse:
    """Revoke an approval that the agent has not received."""
    try:
        answer = gate.revoke_approval(request.user, pk)
    except RequestRefused as refused:
        problem = convert_refusal(refused)
        return JsonResponse(problem.body, status=problem.status, headers=problem.headers)
    return _answer(pk, recalled=list(answer.recalled_calls), too_late=answer.late_count)


def read_fields(request: HttpRequest) -> QueryDict:
    """Return the fields of a form or a JSON object; raises ValueError."""
    if request.content_type != "application/json":
        return request.POST
    body = body_of(request)
    if not isinstance(body, dict):
        raise ValueError("not an object")
    return write_fields(body)


def _find_approval(pk: str) -> Approval | None:
    if not (pk.isascii() and pk.isprintable()):  # the range of ids in databases
        return None
    return Approval.objects.filter(pk=pk, asked=True).select_related("run__source", "call").first()


def _answer(pk: str, **more: Any) -> HttpResponse:
    row = _find_approval(pk)
    if row is None:
        return fault(404, "not_found", "Approval not found.")
    return JsonResponse(serialize_approval(row, row.call.as_shown_card()) | more)
