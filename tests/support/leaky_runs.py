"""Runs with secrets in every place that an agent can write to, and what must stay the same when they are masked."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.utils import timezone

from tests.support.gate_commands import RecordFacts
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
AWS = "AKIAQ3EGWX7RPZ5TLM2V"
WORD = "hunter2-correct-horse"
DB = "pg-Sup3rS3cret-77"
BEARER = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PLANTED = (GITHUB, AWS, WORD, DB, BEARER)


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


def make_leaky_run(source: Source) -> Run:
    """Make a run with secrets everywhere that ended two days ago."""
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
