"""Results of simulations as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.policy.simulation.simulation import simulate
from dashboard.policy.simulation.simulation_result import SimulationResult
from tests.support.simulations import ANY, PUSH, draft

pytestmark = pytest.mark.django_db


def test_a_tally_survives_being_written_down(a_call: Any) -> None:
    a_call(tool="Bash", input={"command": "git push"})
    tally = simulate(draft(), draft(PUSH), ANY)
    assert SimulationResult.from_json(json.loads(json.dumps(tally.as_json()))) == tally
