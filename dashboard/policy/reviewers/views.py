"""The page of reviewers, and its forms: the prompt and the mode in the draft, and the end of a pause."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy.views import handle_unreadable_version
from toolcards.core.policy.reviewer import DEFAULT_PROMPT, Reviewer
from toolcards.gate import policy_draft, policy_store
from toolcards.models import Review
from toolcards.reviewers import reviewer_requests, worker

# What reviewers answered, next to what people answered about the same calls.
DAYS = 30
MAX_REVIEWS = 2_000  # the newest of a reviewer that count
MAX_DIFFERENCES = 20  # that the page lists
_APPROVED = frozenset({"approved", "claimed", "succeeded", "failed", "unknown", "expired"})
_LOOSER = ("allow", "deny")  # what the reviewer would have answered, and what a person did


@dataclass
class ReviewRecord:
    """The reviews of one reviewer. `agreed` and `differed` count those that a person answered, too."""

    total: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    agreed: int = 0
    differed: int = 0
    looser: int = 0  # of those that differ: it would have allowed what a person denied
    limited: int = 0  # allows that would not count: only people can approve those calls
    differences: list[tuple[Review, str]] = field(default_factory=list)  # with the answer of the person


def compare_with_people(reviewer: Reviewer) -> ReviewRecord:
    """Return the recent record of a reviewer as it is now."""
    earliest = time.time() - DAYS * 86_400
    reviews = Review.objects.filter(
        reviewer=reviewer.name, reviewer_sha256=reviewer.sha256, state="done", answered_at__gte=earliest
    )
    return count_reviews(reviews.select_related("approval__call").order_by("-id")[:MAX_REVIEWS])


def count_reviews(reviews: Iterable[Review]) -> ReviewRecord:
    """Count the reviews, newest first."""
    record = ReviewRecord()
    for review in reviews:
        record.total += 1
        record.failures += review.is_failure
        if review.answer:
            record.answers[review.answer] += 1
        if review.answer and review.note:
            record.limited += 1
            continue
        person = read_answer_of_person(review)
        if not person or review.answer not in _LOOSER:
            continue
        if person == review.answer:
            record.agreed += 1
            continue
        record.differed += 1
        record.looser += (review.answer, person) == _LOOSER
        if len(record.differences) < MAX_DIFFERENCES:
            record.differences.append((review, person))
    return record


def read_answer_of_person(review: Review) -> str:
    """Return a person's answer, allow or deny; "" without one."""
    approval = review.approval
    if approval.by_kind != "human":
        return ""
    if approval.state == "denied":
        return "deny"
    return "allow" if approval.state in _APPROVED else ""


class ReviewerForm(forms.Form):
    """What people change of a reviewer in the draft."""

    mode = forms.ChoiceField(choices=[("shadow", "Only record its answers"), ("enforce", "Let its answers count")])
    prompt = forms.CharField(
        required=False, max_length=20_000, strip=False, widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"})
    )


@dataclass(frozen=True)
class ReviewerRow:
    """One reviewer on the page. `end_of_pause`: until when it is left alone, 0 if it works."""

    reviewer: Reviewer
    record: ReviewRecord
    end_of_pause: float
    has_key: bool
    rules: tuple[str, ...]
    form: ReviewerForm


@require_GET
@needs(EDIT_POLICY)
@handle_unreadable_version
def reviewers(request: HttpRequest) -> HttpResponse:
    """Show the reviewers of the active policy."""
    return _render(request)


def _render(request: HttpRequest, *, error: str = "", status: int = 200) -> HttpResponse:
    context = {"rows": _list_rows(), "days": DAYS, "failures": worker.FAILURES, "error": error}
    return render(request, "policy/reviewers.html", context, status=status)


def _list_rows() -> list[ReviewerRow]:
    try:
        policy = policy_store.get_active_policy()
    except policy_store.UnreadablePolicy:
        raise
    except policy_store.NoActivePolicy:
        return []
    return [
        ReviewerRow(
            reviewer,
            compare_with_people(reviewer),
            worker.get_end_of_pause(name),
            reviewer.kind == "command" or bool(reviewer_requests.find_key(reviewer.url)),
            tuple(rule.id for rule in policy.rules if name in (rule.ask.review, rule.ask.shadow_review)),
            ReviewerForm(
                initial={"mode": "enforce" if reviewer.enforces else "shadow", "prompt": reviewer.prompt},
                auto_id=f"{name}-%s",
            ),
        )
        for name, reviewer in sorted(policy.reviewers.items())
    ]


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def change_reviewer(request: HttpRequest, name: str) -> HttpResponse:
    """Save the prompt and the mode in the draft."""
    definition, form = _find_definition(name), ReviewerForm(request.POST)
    if not form.is_valid():
        return _render(request, error="Choose a mode, and a prompt of up to 20,000 characters.", status=422)
    prompt = form.cleaned_data["prompt"].replace("\r\n", "\n")
    changed_definition = definition | {"mode": form.cleaned_data["mode"]}
    if definition["kind"] == "model":
        changed_definition |= {"prompt": prompt}
        if prompt.strip() in {"", DEFAULT_PROMPT.strip()}:
            del changed_definition["prompt"]
    draft_reviewers = dict(policy_draft.load_draft().get("reviewers") or {})
    changes = {"reviewers": draft_reviewers | {name: changed_definition}}
    policy_draft.update_draft_head(changes, author=request.user.get_username())
    messages.info(request, f"{name} is changed in the draft. Nothing changes until you activate it.")
    return redirect("policy")


def _find_definition(name: str) -> dict[str, Any]:
    """Return the reviewer in the draft, else in the active policy; raises Http404."""
    documents = [policy_draft.load_draft()]
    try:
        documents.append(dict(policy_store.get_active_policy().document))
    except policy_store.UnreadablePolicy:
        raise
    except policy_store.NoActivePolicy:
        pass
    for document in documents:
        definition = (document.get("reviewers") or {}).get(name)
        if definition is not None:
            return dict(definition)
    raise Http404


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def end_pause(request: HttpRequest, name: str) -> HttpResponse:
    """Ask a reviewer again that failed."""
    _find_definition(name)
    worker.reset(name, request.user.get_username())
    messages.success(request, f"{name} is asked again.")
    return redirect("policy-reviewers")
