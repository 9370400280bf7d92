"""The command that runs one simulation of the policy page."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dashboard.policy.simulation import jobs
from tests.support.simulations import ANY, PUSH

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """This process keeps its priority, and makes no others."""
    steps: list[int] = []
    monkeypatch.setattr("os.nice", steps.append)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    return steps


def run(job: str) -> str:
    output = io.StringIO()
    call_command("simulate", job, stdout=output)
    return output.getvalue()


def test_a_job_is_run_with_low_priority_and_its_result_is_kept(
    policy: Callable[..., Any], a_call: Any, one_core: list[int]
) -> None:
    policy({"default": "allow"})
    a_call("output-available", input={"command": "git push"})
    document = {"v": 1, "default": "allow", "rules": [PUSH]}
    job = jobs.create_job(document, draft="x", active=1, span=ANY, author="ann")
    assert run(job.id) == "done: 1 of 1 calls change\n" and one_core == [10]
    finished_job = jobs.find_job(job.id)
    assert finished_job is not None and (finished_job.state, finished_job.tally.changed) == ("done", 1)
    with pytest.raises(CommandError, match="no pending simulation"):
        run(job.id)  # it has ended


@pytest.mark.parametrize("name", ["sim_nothing", "", "../../etc/passwd", "sim_" + "x" * 100])
def test_a_job_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(CommandError, match="no pending simulation with this id"):
        run(name)
