"""Simulations of the draft as pages: started, watched, out of date."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.policy.simulation import jobs
from tests.support.policy_pages import HX, PUSH
from toolcards.gate import policy_draft

pytestmark = pytest.mark.django_db


def test_a_simulation_is_begun_looked_at_and_goes_stale(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    a_call(tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": [PUSH]}, author="a test")
    review = policy_draft.load_draft()
    from dashboard.policy.view_models import review_draft as reviewed

    span = jobs.Span(calls=1000, days=0)
    job = jobs.create_job(review, draft=reviewed().sha256, active=1, span=span, author="a-admin")
    going = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert 'hx-trigger="every 500ms"' in going and "<progress" in going and "<html" not in going
    assert "Refresh" in admin.get(f"/policy/simulations/{job.id}/").content.decode()
    jobs.run_job(job.id)
    response = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert (
        "1 of 1 calls changes: 1 allow → deny" in response
        and "hx-trigger" not in response
        and "data-stale" not in response
    )
    assert "Checked 1 call\n" in admin.get("/policy/").content.decode()
    policy_draft.remove_rule("no-push")
    assert "data-stale" in admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()


def test_only_those_who_edit_policy_simulate(a_person: Any, client: Client) -> None:
    client.force_login(a_person("approver"))
    assert client.post("/policy/draft/simulate/", {"calls": "1000", "days": "7"}).status_code == 403
    assert client.get("/policy/simulations/sim_x/").status_code == 403
    assert client.get("/policy/draft/text/").status_code == 403


def test_a_simulation_that_never_was_is_not_found(admin: Client) -> None:
    assert admin.get("/policy/simulations/sim_never/").status_code == 404
