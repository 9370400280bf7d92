"""A draft over calls that really came: what would change, what a person had said, and the job that looks at many."""

from __future__ import annotations

import json
import shutil
import stat
from typing import Any

import pytest

from dashboard.policy.simulation import jobs
from dashboard.policy.simulation.past_calls import Span, iterate_past_calls, split_span
from dashboard.policy.simulation.simulation import SimulationCancelled, simulate
from dashboard.policy.simulation.simulation_result import SimulationResult, merge_results
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_store
from toolcards.models import ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_jobs_of_others(db: None) -> None:
    """Files outlive a test's database."""
    shutil.rmtree(jobs.get_folder())


ANY = Span(days=0)
PUSH = {"id": "no-push", "effect": "deny", "match": {"args": [{"path": "/command", "op": "cmd", "value": "git push"}]}}
WATCH = dict(PRESETS["watch"].document)


def draft(*rules: dict[str, Any], default: str = "allow") -> Any:
    return parse({"v": 1, "default": default, "rules": list(rules)})


def changes(old: Any, new: Any, span: Span = ANY) -> list[tuple[str, str, str, str, int]]:
    return [(g.tool, g.old, g.new, g.rule, g.count) for g in simulate(old, new, span).groups]


def test_only_calls_that_the_new_rule_meets_change(a_call: Any) -> None:
    for number, command in enumerate(("git push", "git pull", "sudo git push origin")):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": command})
    tally = simulate(draft(), draft(PUSH), ANY)
    assert (tally.judged, tally.unknown, tally.changed, tally.hits) == (3, 0, 2, {"no-push": 2})
    assert changes(draft(), draft(PUSH)) == [("Bash", "allow", "deny", "no-push", 2)]


@pytest.mark.parametrize("rule", [
    PUSH,
    {"id": "x", "effect": "allow", "match": {"args": [{"path": "/command", "op": "cmd", "value": "ls"}]}},
    {"id": "x", "effect": "ask", "match": {"args": [{"path": "/nowhere", "op": "gt", "value": 1}]}},
    {"id": "x", "effect": "deny", "match": {"kind": ["execute"]},
     "unless": [{"args": [{"path": "/command", "op": "eq", "value": "ls"}]}]},
    {"id": "x", "effect": "deny", "match": {"agent": ["bot", "an agent"]}},
])  # fmt: skip
@pytest.mark.parametrize("default", ["allow", "ask"])
def test_skipping_what_no_differing_rule_touches_changes_no_verdict(a_call: Any, rule: Any, default: str) -> None:
    inputs = [
        {"command": "ls"},
        {"command": "ls && git push"},
        {"command": "$X push"},
        {"command": 7},
        {},
        {"nowhere": "1"},
    ]
    for number, entry in enumerate(inputs):
        a_call(call_id=f"c{number}", tool="Bash", input=entry)
    old, new = draft(default=default), draft(rule, default=default)
    from toolcards.core.policy.decision import decide

    slow = sum(
        decide(old, call.question).effect is not decide(new, call.question).effect
        for call in iterate_past_calls(ANY)
        if call.question is not None
    )
    assert simulate(old, new, ANY).changed == slow


def test_a_call_whose_arguments_are_masked_or_missing_is_reported_not_guessed(a_call: Any) -> None:
    a_call("input-streaming", call_id="c1", tool="Bash")
    a_call(call_id="c2", tool="Bash", input={"command": "echo ‹secret github-token 40 · 3f9a›"})
    tally = simulate(draft(), draft(PUSH, default="ask"), ANY)
    assert (tally.judged, tally.unknown, tally.changed) == (0, 2, 0)


def test_what_a_person_answered_otherwise_is_an_alarm(a_call: Any) -> None:
    denied = a_call("output-denied", call_id="c1", tool="Edit", input={"path": "a"})
    approved = a_call("approval-responded", call_id="c2", tool="Bash", input={"command": "git push"})
    tally = simulate(draft(default="ask"), draft(PUSH), ANY)
    assert (tally.opened.count, tally.opened.examples) == (1, [denied.pk])
    assert (tally.closed.count, tally.closed.examples) == (1, [approved.pk])
    # Where the active policy lets it pass already, activating changes nothing.
    assert simulate(draft(), draft(PUSH), ANY).opened.count == 0


def test_a_rule_that_watches_says_how_often_it_would_have_answered(a_call: Any) -> None:
    a_call(tool="Bash", input={"command": "git push"})
    tally = simulate(draft(), draft(PUSH | {"mode": "monitor"}), ANY)
    assert (tally.changed, tally.would) == (0, {"no-push": 1})


def test_the_span_bounds_number_tool_agent_and_age(a_call: Any) -> None:
    for number in range(5):
        a_call(call_id=f"c{number}", tool="Bash" if number else "Edit")
    assert len(list(iterate_past_calls(Span(calls=3, days=0)))) == 3
    assert len(list(iterate_past_calls(Span(days=0, tool="Edit")))) == 1
    assert len(list(iterate_past_calls(Span(days=0, agent="nobody")))) == 0
    assert len(list(iterate_past_calls(Span(days=1)))) == 5
    with allow_log_writes():
        ToolCall.objects.filter(call_id__in=("c0", "c1")).update(started_at="2020-01-01T00:00:00Z")
    assert len(list(iterate_past_calls(Span(days=1)))) == 3


def test_slices_meet_every_call_once_and_add_up(a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": "git push" if number % 2 else "ls"})
    monkeypatch.setattr("dashboard.policy.simulation.past_calls.SLICE", 3)
    parts = split_span(ANY)
    assert [part.calls for part in parts] == [3, 3, 1]
    met = [call.pk for part in parts for call in iterate_past_calls(part)]
    assert met == [call.pk for call in iterate_past_calls(ANY)] and len(set(met)) == 7
    whole, old, new = SimulationResult(), draft(), draft(PUSH)
    for part in parts:
        merge_results(whole, simulate(old, new, part))
    alone = simulate(old, new, ANY)
    assert (whole.judged, whole.changed, whole.hits) == (alone.judged, alone.changed, alone.hits)
    assert whole.groups[0].examples == alone.groups[0].examples


def test_a_tally_survives_being_written_down(a_call: Any) -> None:
    a_call(tool="Bash", input={"command": "git push"})
    tally = simulate(draft(), draft(PUSH), ANY)
    assert SimulationResult.from_json(json.loads(json.dumps(tally.as_json()))) == tally


# ---------------------------------------------------------------- jobs


@pytest.fixture
def job(policy: Any, a_call: Any) -> jobs.Job:
    policy("watch")
    a_call(tool="Bash", input={"command": "git push", "token": "ghp_0123456789abcdefghijABCDEFGHIJ012345"})
    document = WATCH | {"rules": [PUSH]}
    return jobs.create_job(
        document, draft=digest(document), active=policy_store.get_active_version_number(), span=ANY, author="ana"
    )


def test_a_job_is_done_and_pinned_to_the_draft_and_the_active_version(job: jobs.Job) -> None:
    assert jobs.find_job(job.id).state == "waiting"  # type: ignore[union-attr]
    completed = jobs.run_job(job.id)
    assert (completed.state, completed.tally.changed) == ("done", 1) and jobs.find_job(job.id) == completed
    assert completed.fits(job.draft, job.active)
    assert not completed.fits(digest(WATCH), job.active) and not completed.fits(job.draft, job.active + 1)


def test_its_files_hold_no_arguments_and_are_ours_alone(job: jobs.Job) -> None:
    jobs.run_job(job.id)
    for path in jobs.get_folder().glob(f"{job.id}.*"):
        assert "ghp_" not in path.read_text() and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_job_that_is_cancelled_ends_and_cannot_be_begun_again(job: jobs.Job) -> None:
    jobs.cancel_job(job.id)
    assert jobs.find_job(job.id).state == "cancelled"  # type: ignore[union-attr]
    with pytest.raises(LookupError):
        jobs.run_job(job.id)


def test_cancelling_is_heard_while_it_works(job: jobs.Job) -> None:
    tell = jobs._build_progress_callback(job)
    jobs.cancel_job(job.id)
    with pytest.raises(SimulationCancelled):
        tell(SimulationResult())


def test_the_next_job_stops_the_one_before(job: jobs.Job) -> None:
    jobs.create_job(WATCH, draft=digest(WATCH), active=job.active, span=ANY, author="ben")
    assert jobs.find_job(job.id).state == "cancelled"  # type: ignore[union-attr]


def test_a_job_whose_process_is_gone_reports_its_failure(job: jobs.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SILENT", -1.0)
    assert jobs.find_job(job.id).state == "failed"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["", "..", "sim_../../x", "sim_aaaa/b", "sim_" + "a" * 99, "secret_key", "sim_nobody"])
def test_names_that_are_no_jobs_lead_nowhere(db: None, name: str) -> None:
    assert jobs.find_job(name) is None
