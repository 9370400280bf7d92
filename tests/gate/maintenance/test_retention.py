"""Secrets of ended runs are masked permanently and nothing else changes; old runs are deleted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from tests.support.gate_commands import RecordFacts, make_ballot
from toolcards import encryption, gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import facts as f
from toolcards.core.redaction.masks import has_mask
from toolcards.gate.agents.idempotency import ReserveKey, UpdateKey
from toolcards.gate.maintenance import rebuild, retention, run_masking
from toolcards.gate.writer import group_commit, run_cache
from toolcards.models import Approval, AuditRow, Event, Receipt, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
AWS = "AKIAQ3EGWX7RPZ5TLM2V"
WORD = "hunter2-correct-horse"
DB = "pg-Sup3rS3cret-77"
BEARER = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PLANTED = (GITHUB, AWS, WORD, DB, BEARER)
DAY = 86_400


@pytest.fixture(autouse=True)
def _nothing_refused() -> None:
    run_masking._refused_runs.clear()


def everything() -> str:
    """Every text in every table of the engine, with what is sealed opened."""
    models = apps.get_app_config("toolcards").get_models()
    return "\n".join(f"{model._meta.db_table}: {row!r}" for model in models for row in model.objects.values_list())


def read_outcomes() -> dict[Any, Any]:
    """Return what must stay the same of every card."""
    cards = {}
    for call in ToolCall.objects.order_by("run_id", "ordinal"):
        card = call.as_card()
        ask, value = card.approval, card.decision
        cards[call.public_id] = (
            card.call_id, card.state, card.times, card.soft, card.cause, call.waiting,
            ask and (ask.state, ask.id, ask.args_sha256, ask.by, ask.decided_at),
            value and (value.effect, value.code, value.rule, value.args_sha256),
        )  # fmt: skip
    approvals = list(Approval.objects.order_by("id").values_list("id", "state", "args_sha256", "decided_at", "by_name"))
    columns = ("pk", "status", "ended_at", "seq", "calls", "counts", "updated_at")
    runs = list(Run.objects.order_by("pk").values_list(*columns))
    return {"cards": cards, "approvals": approvals, "runs": runs}


def letters(call_id: str, text: str, size: int = 3) -> list[Any]:
    """The text as an agent streams it."""
    return [f.InputDelta(call_id, text[at : at + size]) for at in range(0, len(text), size)]


def a_leaky_story() -> list[Any]:
    """A run that says secrets wherever one can."""
    command = json.dumps({"command": f"curl -H 'Authorization: Bearer {BEARER}' https://x.test", "password": WORD})
    schema = {"type": "object", "properties": {"password": {"type": "string", "default": WORD}}}
    return [
        f.RunStarted(agent="bot", title=f"use {GITHUB}", tools=[{"name": "login", "input_schema": schema}]),
        f.TextDelta(text="I shall use ghp_"), f.TextDelta(text=GITHUB[4:] + " now"),
        f.InputStarted("streamed", "bash"), *letters("streamed", command), f.InputReady("streamed"),
        f.OutputReady("streamed", {"stdout": f"export AWS_ACCESS_KEY_ID={AWS}", "env": {"DB_PASSWORD": DB}}),
        f.InputStarted("broken", "bash"), *letters("broken", f'{{"command": "login", "token": "{GITHUB}'),
        f.InputReady("whole", "login", {"password": WORD, "url": f"postgres://app:{DB}@db/x"}, True),
        f.OutputPartial("whole", f"token={GITHUB}"),
        f.OutputFailed("whole", f"refused: password={WORD}"),
        f.InputStarted("twice", "bash"), *letters("twice", f'{{"a": 1, "password": "{WORD[:9]}'),
        f.InputStarted("twice", "bash"), *letters("twice", f'{WORD[9:]}"}}'), f.InputReady("twice"),
        f.InputInvalid("invalid", "bash", f"api_key={GITHUB}", f"bad: {AWS}"),
        f.InputReady("denied", "bash", {"command": f"export TOKEN={GITHUB}"}, True),
        f.OutputDenied("denied", f"no, it has {GITHUB}"),
        f.RunEnded(outcome="error", reason=f"failed with Authorization: Bearer {BEARER}"),
    ]  # fmt: skip


@pytest.fixture
def leaky(source: Source) -> Run:
    """A run with secrets everywhere, ended two days ago."""
    pk = group_commit.execute(RecordFacts(source, "leaky", a_leaky_story()))
    return aged(Run.objects.get(pk=pk))


def aged(run: Run, days: float = 2) -> Run:
    """The same run, had it happened so many days earlier."""
    was = timezone.now() - timedelta(days=days)
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(started_at=was, ended_at=was, updated_at=was)
    run_cache.discard(run.pk)
    run.refresh_from_db()
    return run


# ---------------------------------------------------------------- masking
def test_no_secret_is_left_and_nothing_else_has_changed(leaky: Run) -> None:
    assert all(secret in everything() for secret in (GITHUB, AWS, WORD, DB, BEARER))
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
    assert run_masking.mask_run(listed, dry_run=False) is run_masking.MaskResult.CHANGED
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


def test_a_dry_run_changes_nothing(leaky: Run, limits: Callable[..., None]) -> None:
    limits(retention_days=1)
    before, out = everything(), StringIO()
    call_command("retention", "--dry-run", stdout=out)
    assert "Would mask the secrets of 1 runs" in out.getvalue() and "Would delete 1 runs, 6 calls" in out.getvalue()
    assert everything() == before


def test_the_command_masks_what_is_due_and_says_so(leaky: Run) -> None:
    out = StringIO()
    call_command("retention", stdout=out)
    assert "Masked the secrets of 1 runs; 0 refused." in out.getvalue()
    row = AuditRow.objects.get(act="retention")
    assert row.run == "leaky" and row.details["masked"]["events"] > 10


def test_runs_that_are_open_or_ended_recently_are_unchanged(a_run: Callable[..., Run]) -> None:
    secret = f.InputReady("c", "bash", {"password": WORD}, True)
    a_run("alive", secret)
    a_run("lately", f.InputReady("c", "bash", {"password": WORD}, True), f.RunEnded())
    with allow_log_writes():
        Run.objects.filter(name="alive").update(started_at=timezone.now() - timedelta(days=9))
    before = everything()
    assert gate.run_retention().scrubbed == 0
    assert everything() == before


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


# ---------------------------------------------------------------- deleting
def test_old_runs_are_deleted_with_all_that_was_theirs(
    leaky: Run, a_run: Callable[..., Run], limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CHUNK", 20)
    monkeypatch.setattr(retention, "CALLS", 2)
    a_run("young", f.InputReady("c", "bash", {}, True), f.RunEnded())
    assert gate.run_retention().deleted == {}
    limits(retention_days=1)
    completed = gate.run_retention()
    assert completed.deleted["runs"] == 1 and completed.deleted["calls"] == 6
    assert [run.name for run in Run.objects.all()] == ["young"]
    assert not Event.objects.filter(run=leaky.pk).exists() and not ToolCall.objects.filter(run=leaky.pk).exists()
    row = AuditRow.objects.filter(act="retention").order_by("-seq").first()
    assert row and row.details["deleted"]["events"] == completed.deleted["events"]


def _answer_request(source: Source, key: str, days_ago: float) -> None:
    receipt = group_commit.execute(ReserveKey(source, key, {}))
    group_commit.execute(UpdateKey(lambda tx: receipt.answer('{"said": "something"}')))
    Receipt.objects.filter(key=key).update(created_at=timezone.now() - timedelta(days=days_ago))


def test_old_receipts_are_forgotten_in_small_rounds_and_counted(
    source: Source, limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CHUNK", 2)
    for number, days in enumerate((20, 20, 15, 13, 1)):
        _answer_request(source, f"k{number}", days)
    assert gate.run_retention(dry_run=True).deleted["receipts"] == 3 and Receipt.objects.count() == 5
    first, second, third = gate.run_retention(), gate.run_retention(), gate.run_retention()
    assert [completed.deleted["receipts"] for completed in (first, second, third)] == [2, 1, 0]
    assert first.more and not second.more
    assert [row.key for row in Receipt.objects.order_by("pk")] == ["k3", "k4"]
    rows = AuditRow.objects.filter(act="retention").order_by("seq")
    assert [row.details["deleted"]["receipts"] for row in rows] == [2, 1]
    assert group_commit.execute(ReserveKey(source, "k0", {})).untouched
    assert group_commit.execute(ReserveKey(source, "k3", {})).text == '{"said": "something"}'


@pytest.mark.parametrize(("payload", "expected_count"), [
    ({"receipt_days": 0}, 3), ({"receipt_days": 30}, 2), ({"receipt_days": 0, "retention_days": 5}, 1),
    ({"receipt_days": 30, "retention_days": 5}, 1), ({"receipt_days": 3, "retention_days": 50}, 1),
])  # fmt: skip
def test_no_receipt_outlives_its_setting_or_the_runs(
    source: Source, limits: Callable[..., None], payload: dict[str, float], expected_count: int
) -> None:
    for key, days in (("old", 40), ("middle", 10), ("new", 1)):
        _answer_request(source, key, days)
    limits(**payload)
    gate.run_retention()
    assert Receipt.objects.count() == expected_count


# ---------------------------------------------------------------- sealed
def test_what_is_sealed_opens_with_older_keys_too_and_not_with_others(settings: Any) -> None:
    text = "naïve \ud800 text"
    sealed, again = encryption.seal([text, text], "a.b")
    assert sealed != again and encryption.open(sealed, "a.b") == encryption.open(again, "a.b") == text
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key"
    assert encryption.open(sealed, "a.b") == text
    (new,) = encryption.seal([text], "a.b")
    settings.SECRET_KEY_FALLBACKS = []
    assert encryption.open(new, "a.b") == text
    with pytest.raises(encryption.DecryptionError):
        encryption.open(sealed, "a.b")
    assert encryption.open("never sealed", "a.b") == "never sealed" and encryption.seal([""], "a.b") == [""]
    assert encryption.seal([encryption.UnreadableText(sealed)], "a.b") == [sealed]


def test_receipts_are_sealed_and_given_back(source: Source) -> None:
    receipt = group_commit.execute(ReserveKey(source, "k", {}))
    group_commit.execute(UpdateKey(lambda tx: receipt.answer('{"said": "something"}')))
    with connection.cursor() as cursor:
        cursor.execute("SELECT answer FROM toolcards_receipt")
        assert cursor.fetchone()[0].startswith(encryption.MARK)
    assert group_commit.execute(ReserveKey(source, "k", {})).text == '{"said": "something"}'
    assert Receipt.objects.filter(answer="").count() == 0
