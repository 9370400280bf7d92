"""The bell: which listeners hear it."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from tests.support.server import PATIENCE
from toolcards import doorbell, gate

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_switch_rings_only_for_listeners_of_all_runs(db: None) -> None:
    async with doorbell.listen(doorbell.EVERY_RUN) as everybody, doorbell.listen(7) as one:
        await sync_to_async(gate.set_kill_switch)("ben", True)
        assert await everybody.wait(PATIENCE) == {doorbell.EVERY_RUN}
        assert not one._rung


async def test_all_approvals_ring_for_those_who_listen_to_all_of_them_only() -> None:
    async with doorbell.listen(doorbell.EVERY_APPROVAL) as approvals, doorbell.listen(doorbell.EVERY_RUN) as runs:
        doorbell.ring([7, doorbell.get_approvals_bell(8)])
        assert await approvals.wait(PATIENCE) == {-8}
        assert await runs.wait(PATIENCE) == {7}
