"""Secrets of ended runs are masked permanently, in the log and in all texts that belong to it; the rest stays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tests.support.gate_commands import RecordFacts, make_ballot
from tests.support.leaky_runs import (
    AWS,
    GITHUB,
    PLANTED,
    WORD,
    aged,
    everything,
    letters,
    make_leaky_run,
    read_outcomes,
)
from tests.support.tables import loop_over
from toolcards import encryption, gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import facts as f
from toolcards.core.redaction.masks import has_mask
from toolcards.gate.agents.idempotency import ReserveKey, UpdateKey
from toolcards.gate.maintenance import rebuild, run_masking
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, AuditRow, Event, Receipt, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
DAY = 86_400


@pytest.fixture
def leaky(source: Source) -> Run:
    return make_leaky_run(source)


def test_no_secret_is_left_and_nothing_else_has_changed(leaky: Run) -> None:
    assert all(secret in everything() for secret in PLANTED)
    before = read_outcomes()
    completed = gate.run_retention()
    assert (completed.scrubbed, completed.refusals) == (1, 0)
    contents = everything()
    assert [secret for secret in PLANTED if secret in contents] == []
    assert WORD[9:] not in contents
    assert read_outcomes() == before
    assert list(rebuild.find_differences(leaky)) == []
    assert has_mask(ToolCall.objects.get(call_id="twice").as_card().input)


def test_a_run_that_comes_back_while_it_is_read_is_not_reported_as_broken(leaky: Run, source: Source) -> None:
    listed = Run.objects.get(pk=leaky.pk)
    group_commit.execute(RecordFacts(source, "leaky", [f.RunStarted(), f.TextDelta(text=f"again {GITHUB}")]))
    assert run_masking.mask_run(listed, Pace()) is run_masking.MaskResult.CHANGED
    assert not AuditRow.objects.filter(act="retention").exists()
    group_commit.execute(RecordFacts(source, "leaky", [f.RunEnded()]))
    gate.run_retention(time.time() + 2 * DAY)
    assert [secret for secret in PLANTED if secret in everything()] == []


def test_the_second_time_there_is_nothing_to_do(leaky: Run) -> None:
    gate.run_retention()
    before = everything()
    assert gate.run_retention().scrubbed == 0
    with allow_log_writes():
        Run.objects.update(scrubbed_at=None)
    assert gate.run_retention().scrubbed == 1
    assert [line for line in everything().splitlines() if not line.startswith("toolcards_run:")] == [
        line for line in before.splitlines() if not line.startswith("toolcards_run:")
    ]


def test_a_resumed_run_continues_and_is_masked_again(leaky: Run, source: Source) -> None:
    group_commit.execute(
        RecordFacts(source, "leaky", [f.TextDelta(text="old")])
    )  # another process remembers it like this
    stale = run_cache.get(leaky.pk)
    aged(leaky)
    assert stale is not None
    gate.run_retention()
    run_cache.store(stale)
    assert Run.objects.get(pk=leaky.pk).scrubbed_at is not None
    new = f.InputReady("new", "bash", {"token": GITHUB}, True)
    group_commit.execute(RecordFacts(source, "leaky", [f.OutputReady("broken", GITHUB), new]))
    run = Run.objects.get(pk=leaky.pk)
    assert (run.scrubbed_at, run.status) == (None, "running")
    assert WORD not in everything()
    assert list(rebuild.find_differences(run)) == []
    group_commit.execute(RecordFacts(source, "leaky", [f.RunEnded()]))
    aged(run)
    assert gate.run_retention().scrubbed == 1
    assert GITHUB not in everything()


def test_equal_secrets_stay_equal_and_pieces_without_any_stay_as_they_were(a_run: Callable[..., Run]) -> None:
    plain = letters("plain", '{"command": "ls"}')
    run = a_run(
        "run-1", f.InputStarted("plain", "bash"), *plain, f.InputReady("plain"),
        *(f.InputReady(name, "x", {"password": WORD}, True) for name in "ab"), f.RunEnded(),
    )  # fmt: skip
    aged(run)
    gate.run_retention()
    a, b = (ToolCall.objects.get(call_id=name).as_card().input for name in "ab")
    assert a == b and has_mask(a)
    rows = [event.decoded_fact for event in Event.objects.after(run, 0)]
    assert [fact.text for fact in rows if isinstance(fact, f.InputDelta)] == [piece.text for piece in plain]


def test_votes_and_edited_approvals_are_masked_and_their_digests_stay(
    a_call: Callable[..., ToolCall], an_approver: Any, policy: Callable[..., Any], source: Source
) -> None:
    policy({"default": "ask"})
    call = a_call("approval-requested", input={"command": f"deploy --password {WORD}"})
    reason, note = f"fine, uses {GITHUB}", f"I checked {AWS}"
    paper = make_ballot(call, "approve")
    gate.vote(an_approver, replace(paper, reason=reason, note=note))
    edited = {"command": f"deploy --password {WORD} --dry"}
    with allow_log_writes():
        Approval.objects.update(edited=json.dumps(edited), reason=reason, note=note)
    with connection.cursor() as cursor:
        cursor.execute("SELECT edited FROM toolcards_approval")
        assert cursor.fetchone()[0].startswith(encryption.MARK)
    group_commit.execute(RecordFacts(source, "run-1", [f.OutputReady(call.call_id, "ok"), f.RunEnded()]))
    aged(Run.objects.get())
    before = read_outcomes()
    assert gate.run_retention().scrubbed == 1
    row = Approval.objects.get()
    assert has_mask(json.loads(row.edited)) and has_mask(row.reason) and has_mask(row.note)
    assert row.args_sha256 == digest({"command": f"deploy --password {WORD}"})
    contents = everything()
    assert [secret for secret in PLANTED if secret in contents] == []
    assert read_outcomes() == before


def test_what_does_not_add_up_is_left_alone_and_said_once(leaky: Run) -> None:
    with allow_log_writes():
        ToolCall.objects.filter(call_id="whole").update(state="output-available")

    def rows() -> list[str]:
        return [
            line for line in everything().splitlines() if line.startswith(("toolcards_event", "toolcards_toolcall"))
        ]

    before = rows()
    assert gate.run_retention().refusals == 1
    run_masking._refused_runs.clear()  # as after a restart
    assert gate.run_retention().refusals == 1
    assert gate.run_retention().refusals == 0
    assert rows() == before
    assert AuditRow.objects.get(act="retention").details["refused"].startswith("its cards")
    with allow_log_writes():
        ToolCall.objects.filter(call_id="whole").update(state="output-error")


# ---------------------------------------------------------------- refusals


def test_a_refused_run_is_left_out_until_it_changes(leaky: Run, a_run: Callable[..., Run]) -> None:
    runs, other = Run.objects.order_by("-pk"), a_run("other")
    assert run_masking.take_unrefused(runs, 2) == [other, leaky]
    run_masking._refused_runs[leaky.pk] = leaky.seq
    assert run_masking.take_unrefused(runs, 2) == [other]
    run_masking._refused_runs[other.pk] = other.seq - 1  # it has changed since
    assert run_masking.take_unrefused(runs, 2) == [other]
    run_masking._refused_runs[leaky.pk] = leaky.seq - 1
    assert (run_masking.take_unrefused(runs, 1), run_masking.take_unrefused(runs, 2)) == ([other], [other, leaky])


def test_many_refused_runs_keep_no_other_run_from_being_masked(leaky: Run) -> None:
    run_masking._refused_runs |= {leaky.pk + number: 1 for number in range(1, 1_500)}
    assert gate.run_retention().scrubbed == 1
    assert [secret for secret in PLANTED if secret in everything()] == []


def test_a_run_whose_log_lacks_an_event_is_refused_and_a_dry_run_notes_nothing(leaky: Run) -> None:
    with allow_log_writes():
        Run.objects.update(seq=leaky.seq + 1)
    listed = Run.objects.get()
    assert run_masking.mask_run(listed) is run_masking.MaskResult.REFUSED
    assert not run_masking._refused_runs and not AuditRow.objects.filter(act="retention").exists()
    assert run_masking.mask_run(listed, Pace()) is run_masking.MaskResult.REFUSED
    assert AuditRow.objects.get(act="retention").details == {"refused": "its log is incomplete", "seq": listed.seq}
    with allow_log_writes():
        Run.objects.update(seq=leaky.seq)


# ---------------------------------------------------------------- texts


def test_answers_stored_while_the_run_was_open_are_masked_and_others_stay(leaky: Run, source: Source) -> None:
    with allow_log_writes():
        Run.objects.update(started_at=leaky.started_at - timedelta(hours=1))
    for key, minutes in (("before", -61), ("first", -60), ("last", 0), ("after", 1)):
        receipt = group_commit.execute(ReserveKey(source, key, {}))
        group_commit.execute(
            UpdateKey(lambda tx, reserved_key=receipt: reserved_key.answer(json.dumps({"password": WORD})))
        )
        Receipt.objects.filter(key=key).update(created_at=leaky.started_at + timedelta(minutes=minutes))
    gate.run_retention()
    masked_keys = {row.key for row in Receipt.objects.all() if has_mask(json.loads(row.answer))}
    assert masked_keys == {"first", "last"}


@loop_over("text, expected", [
    ('{"a":  1}', '{"a":  1}'),  # nothing to mask, so not even spaces change
    ("12", "12"), ("plain", "plain"), ("NUL \x00, half \ud83d", "NUL \ufffd, half \ufffd"), ("", ""),
])  # fmt: skip
def test_a_text_without_a_secret_stays_and_fits_every_database(text: str, expected: str) -> None:
    assert run_masking._mask_text(encryption.get_redactor(), text) == expected


def test_a_secret_is_masked_where_its_json_shows_it() -> None:
    masked_text = run_masking._mask_text(encryption.get_redactor(), json.dumps({"password": WORD, "rest": [1, None]}))
    assert has_mask(json.loads(masked_text)["password"]) and json.loads(masked_text)["rest"] == [1, None]
    assert has_mask(run_masking._mask_text(encryption.get_redactor(), f"it is {GITHUB}"))


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_run_is_masked_in_slices_and_log_and_cards_agree_after_each(
    size: int, leaky: Run, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_masking, "SLICE", size)
    before, execute, steps = read_outcomes(), group_commit.execute, []

    def execute_and_compare(work: Any) -> Any:
        answer = execute(work)
        steps.append(list(rebuild.find_differences(Run.objects.get(pk=leaky.pk))))
        return answer

    monkeypatch.setattr(group_commit, "execute", execute_and_compare)
    assert gate.run_retention().scrubbed == 1
    assert len(steps) > 2 and not any(steps)
    contents = everything()
    assert [secret for secret in PLANTED if secret in contents] == [] and read_outcomes() == before
    assert AuditRow.objects.get(act="retention").details["masked"]["events"] > 0


def test_a_run_that_comes_back_between_two_slices_is_masked_after_its_next_end(
    leaky: Run, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_masking, "SLICE", 1)
    execute, steps = group_commit.execute, []

    def execute_and_resume(work: Any) -> Any:
        answer = execute(work)
        steps.append(answer)
        if len(steps) == 2:
            execute(RecordFacts(source, leaky.name, [f.InputReady("again", "bash", {"command": "ls"}, True)]))
        return answer

    monkeypatch.setattr(group_commit, "execute", execute_and_resume)
    assert gate.run_retention().scrubbed == 0 and steps == [True, True, False]
    assert list(rebuild.find_differences(Run.objects.get(pk=leaky.pk))) == []
    execute(RecordFacts(source, leaky.name, [f.RunEnded()]))
    assert gate.run_retention(time.time() + 2 * DAY).scrubbed == 1
    contents = everything()
    assert [secret for secret in PLANTED if secret in contents] == []
