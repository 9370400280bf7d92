"""What a policy would decide about an invented or a past call, and the page to test one. Nothing is executed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard import url_helpers
from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import view_models
from dashboard.policy.forms import TryForm
from toolcards.client.common import tool_kinds
from toolcards.core.policy.decision import PolicyDecision, PolicyRequest, RuleSet, decide
from toolcards.core.summaries.summary import summarize
from toolcards.encryption import get_redactor
from toolcards.gate import is_tool_announced, policy_store
from toolcards.models import Approval, ToolCall


def build_request(
    tool: str,
    args: Any,
    *,
    agent: Iterable[str] = (),
    source: str = "",
    run: str = "",
    moment: float = 0.0,
    has_input: bool = True,
) -> PolicyRequest:
    """Return the policy request of such a call."""
    return PolicyRequest.for_tool(
        tool,
        source=source,
        agent_path=tuple(agent),
        input=args,
        has_input=has_input,
        run=run,
        now=moment or time.time(),
        is_known=_is_known(tool, source),
    )


def _is_known(tool: str, source: str) -> bool:
    """Return whether the tool is known: listed, known at its newest call, or announced."""
    if tool_kinds.is_known_tool(tool, source):
        return True
    newest = ToolCall.objects.not_removed().filter(tool=tool[:300]).order_by("-id").first()
    verdict = newest.as_card().decision if newest else None
    return verdict.known if verdict else is_tool_announced(tool)


# ---------------------------------------------------------------- one call


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """One condition, the value in the call, and whether the condition holds."""

    condition: str
    value: str
    truth: str
    exception: bool

    @property
    def sign(self) -> str:
        """Return ✓, ✗ or ?, for people who see no color."""
        return {"true": "✓", "false": "✗"}.get(self.truth, "?")


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """The result of one rule for the call."""

    rule: str
    effect: str
    sentence: str
    monitor: bool
    is_match: bool
    clauses: tuple[ConditionResult, ...]

    @property
    def matched_conditions(self) -> int:
        """The number of conditions that hold."""
        return sum(1 for clause in self.clauses if clause.truth == "true" and not clause.exception)

    @property
    def failed_conditions(self) -> list[ConditionResult]:
        """Return why the rule did not match."""
        return [c for c in self.clauses if (c.truth == "false") != c.exception and c.truth != "unknown"]


@dataclass(frozen=True, slots=True)
class Trial:
    """The decision on one call: its rules, the overruled ones, and the one that nearly matched."""

    decision: PolicyDecision
    winners: list[RuleTrial] = field(default_factory=list)
    overruled: list[RuleTrial] = field(default_factory=list)
    watching: list[RuleTrial] = field(default_factory=list)
    nearest: RuleTrial | None = None

    @property
    def effect(self) -> str:
        """Return allow, ask or deny."""
        return str(self.decision.effect)


def try_call(policy: RuleSet, question: PolicyRequest) -> Trial:
    """Return the policy's decision on the call, with its reasons."""
    decision = decide(policy, question, explain=True)
    sentences = {rule.id: rule.sentence for rule in policy.rules}
    trials = [_build_rule_trial(entry, sentences) for entry in decision.trace]
    winners = [rule for rule in trials if rule.rule in decision.rules]
    enforced_trials = [rule for rule in trials if rule.is_match and not rule.monitor and rule not in winners]
    return Trial(
        decision=decision,
        winners=winners,
        overruled=enforced_trials,
        watching=[rule for rule in trials if rule.is_match and rule.monitor],
        nearest=_find_nearest([rule for rule in trials if not rule.is_match]),
    )


def _build_rule_trial(entry: dict[str, Any], sentences: dict[str, str]) -> RuleTrial:
    clauses = tuple(
        ConditionResult(
            str(condition["what"]),
            _mask_value(str(condition["what"]), condition["value"]),
            str(condition["matched"]),
            condition["clause"] != "match",
        )
        for condition in entry["conditions"]
    )
    rule = entry["rule"]
    return RuleTrial(rule, entry["effect"], sentences.get(rule, ""), entry["monitor"], entry["matched"], clauses)


def _find_nearest(missed_trials: list[RuleTrial]) -> RuleTrial | None:
    """Return the rule with the fewest failed conditions, if any of its conditions hold."""
    near = [rule for rule in missed_trials if rule.matched_conditions]
    return min(near, key=lambda rule: (len(rule.failed_conditions), -rule.matched_conditions, rule.rule), default=None)


def _mask_value(path: str, value: Any) -> str:
    """Return the value with secrets masked, also those that its name identifies."""
    name = path.rsplit("/", 1)[-1].split(" ")[0]
    value = next(iter(get_redactor().value({name: value}).values()))
    if value is None or (isinstance(value, list | tuple) and not value):
        return "nothing"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    text = (value or "an empty text") if isinstance(value, str) else repr(value)
    return text if len(text) <= 300 else text[:300] + "…"


@require_http_methods(["GET", "POST"])
@needs()
def show_dry_run(request: HttpRequest) -> HttpResponse:
    """Show what the active policy and the draft decide about a call."""
    form = (
        TryForm(request.POST)
        if request.method == "POST"
        else TryForm(initial=_get_call_values(request.GET.get("call", "")))
    )
    results = []
    if request.method == "POST" and form.is_valid():
        results = _build_results(request, form.cleaned_data)
    page = "policy/_dry_run.html" if request.headers.get("HX-Request") else "policy/dry_run.html"
    status = 422 if form.is_bound and form.errors else 200
    return render(request, page, {"try_form": form, "results": results, "tries": list_recent_examples()}, status=status)


def _build_results(request: HttpRequest, form_data: dict[str, Any]) -> list[dict[str, Any]]:
    question = build_request(form_data["tool"], form_data["args"], agent=form_data["agent"], source=form_data["source"])
    results = []
    try:
        active = policy_store.get_active_policy()
        results.append({"name": f"Active policy, version {active.version}", "trial": try_call(active, question)})
    except policy_store.NoActivePolicy:
        active = None
    if request.user.has_perm(EDIT_POLICY):
        review = view_models.review_draft()
        if review.policy is not None and (review.changes or active is None):
            results.append({"name": "Draft", "trial": try_call(review.policy, question)})
    return results


def _get_call_values(public_id: str) -> dict[str, Any]:
    """Return the form's values for a past call."""
    call = find_call(public_id)
    if call is None:
        return {}
    card = call.as_shown_card()
    args = json.dumps(card.shown_input, indent=2, ensure_ascii=False)
    return {"tool": card.tool.name, "source": card.tool.source, "agent": list(card.agent_path), "args": args}


def find_call(public_id: str) -> ToolCall | None:
    """Return the call with that id, or None."""
    call_id = url_helpers.read_public_id(public_id)
    if call_id is None:
        return None
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    return rows.filter(run_id=call_id[0], ordinal=call_id[1]).first()


def list_recent_examples() -> list[tuple[ToolCall, str]]:
    """Return the latest calls that needed approval, with their inputs in words.

    Of equal ones, only the newest.
    """
    approvals = Approval.objects.filter(asked=True).order_by("-requested_at").values_list("call_id", flat=True)[:20]
    calls = ToolCall.objects.filter(pk__in=list(approvals)).defer("text").order_by("-id")
    examples: dict[tuple[str, str], tuple[ToolCall, str]] = {}
    for call in calls:
        summary = summarize(call.as_shown_card())
        examples.setdefault((call.tool, summary), (call, summary))
    return list(examples.values())[:5]
