"""A first policy and a denied call for the tests of the policy pages."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from dashboard.policy.simulation import jobs
from tests.support.policy_pages import PUSH, SECRET
from toolcards import gate
from toolcards.gate import policy_draft
from toolcards.models import PolicyVersion, ToolCall


@pytest.fixture
def first(a_person: Any) -> PolicyVersion:
    version = policy_draft.ensure_first_version()
    assert version is not None
    return version


@pytest.fixture(autouse=True)
def _no_jobs_of_others(db: None) -> None:
    """Files outlive a test's database."""
    shutil.rmtree(jobs.get_folder())


@pytest.fixture
def denied(policy: Any, source: Any, a_run: Any) -> ToolCall:
    policy({"default": "allow", "rules": [PUSH]})
    request = gate.DecisionRequest(run="r", call_id="c", tool="Bash", args={"command": "git push", "token": SECRET})
    assert gate.decide(source, request)["decision"] == "deny"
    return ToolCall.objects.get(call_id="c")
