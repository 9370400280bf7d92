"""Metrics: who may read them, and what they count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from pydantic import SecretStr

from tests.support.reviewers import answer_review, build_policy, fail_review
from toolcards import __version__, gate, outages
from toolcards.transports.background import worker_ends

pytestmark = pytest.mark.django_db(transaction=True)


async def test_numbers_are_behind_their_token(call: Any, a_call: Any, limits: Any) -> None:
    await in_thread(a_call)("output-available")
    status, text, _ = await call("GET", "/metrics", key=None)
    assert status == 200
    assert 'toolcards_calls{state="output-available"} 1.0' in text
    assert f'toolcards_info{{version="{__version__}"}} 1.0' in text
    limits(metrics_token=SecretStr("watch-me"))
    assert (await call("GET", "/metrics", key="wrong"))[0] == 401
    assert (await call("GET", "/metrics", key="watch-me"))[0] == 200


async def test_answers_of_reviewers_are_counted(call: Any, source: Any, policy: Any, an_approver: Any) -> None:
    def review() -> None:
        policy(build_policy())
        for number, answer in enumerate(("allow", "allow", "")):
            gate.decide(source, gate.DecisionRequest("r", f"c{number}", "bash", {"command": f"make {number}"}))
            answer_review(answer) if answer else fail_review()

    await in_thread(review)()
    _, text, _ = await call("GET", "/metrics", key=None)
    assert 'toolcards_reviews{answer="allow"} 2.0' in text and 'toolcards_reviews{answer="failed"} 1.0' in text


async def test_an_outage_a_lost_worker_and_the_disk_are_numbers(call: Any, limits: Any, tmp_path: Path) -> None:
    limits(data_dir=tmp_path)
    _, text, _ = await call("GET", "/metrics", key=None)
    process = f'process="{os.getpid()}"'
    for part in outages.PARTS:
        assert f'toolcards_outage{{part="{part}",{process}}} 0.0' in text
    assert "toolcards_worker_restarts_total 0.0" in text
    outages.report_failure(outages.SENDING, "no space left")
    worker_ends.record_end(7, "was ended by SIGKILL")
    _, text, _ = await call("GET", "/metrics", key=None)
    assert f'toolcards_outage{{part="sending",{process}}} 1.0' in text
    assert f'toolcards_outage{{part="anchoring",{process}}} 0.0' in text
    assert "toolcards_worker_restarts_total 1.0" in text
    share = next(line for line in text.splitlines() if line.startswith("toolcards_disk_used_share "))
    assert 0 < float(share.split()[1]) < 1


async def test_numbers_of_one_process_name_it(call: Any) -> None:
    _, text, _ = await call("GET", "/metrics", key=None)
    for name in ("journal_backlog", "connections", "event_streams"):
        assert f'toolcards_{name}{{process="{os.getpid()}"}} ' in text
