"""Simulation jobs: one at a time, in a process of its own, with files that hold no arguments."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from typing import Any

import pytest

from dashboard.policy.simulation import jobs
from dashboard.policy.simulation.simulation import SimulationCancelled
from dashboard.policy.simulation.simulation_result import SimulationResult
from tests.support.server import PATIENCE
from tests.support.simulations import ANY, PUSH
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_store

pytestmark = pytest.mark.django_db


WATCH = dict(PRESETS["watch"].document)


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


def test_a_cancellation_is_noticed_during_the_work(job: jobs.Job) -> None:
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


def test_the_error_of_a_job_is_in_the_log(job: jobs.Job, caplog: pytest.LogCaptureFixture) -> None:
    (jobs.get_folder() / f"{job.id}.draft").write_text("{")
    assert (jobs.run_job(job.id).state, caplog.messages) == ("failed", [f"simulation {job.id} failed"])
    assert caplog.records[0].exc_info is not None


@pytest.mark.slow
def test_the_errors_of_its_process_are_in_the_log_of_the_server(
    job: jobs.Job, capfd: pytest.CaptureFixture[str]
) -> None:
    (jobs.get_folder() / f"{job.id}.draft").write_text("{")
    jobs.start_job(job)
    jobs._children[-1].wait(PATIENCE)
    assert f"simulation {job.id} failed" in (errors := capfd.readouterr().err) and "JSONDecodeError" in errors


def test_a_job_of_an_earlier_version_is_read(job: jobs.Job) -> None:
    path = jobs.get_folder() / f"{job.id}.json"
    names = {"error": "told", "updated_at": "heard"}
    fields = {names.get(name, name): value for name, value in json.loads(path.read_text()).items()}
    path.write_text(json.dumps(fields | {"state": "failed", "told": "MemoryError"}))
    assert jobs.find_job(job.id) == replace(job, state="failed", error="MemoryError")


@pytest.mark.parametrize("name", ["", "..", "sim_../../x", "sim_aaaa/b", "sim_" + "a" * 99, "secret_key", "sim_nobody"])
def test_names_that_are_no_jobs_lead_nowhere(db: None, name: str) -> None:
    assert jobs.find_job(name) is None
