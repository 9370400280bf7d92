"""Commands and ballots that tests pass to the gate."""

from __future__ import annotations

from typing import Any

from toolcards import gate
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes


class RecordFacts(Command):
    """Records facts in one commit, to make a run without a connection."""

    def __init__(self, source: Source, run: str, facts: list[Any]) -> None:
        super().__init__()
        self.source, self.run, self.facts = source, run, facts

    def run_keys(self) -> list[tuple[int, str]]:
        return [(self.source.pk, self.run)]

    def apply(self, tx: Any) -> None:
        run = tx.get_or_create_run(self.source.pk, self.run, protocol="native", mode="gate")
        for fact in self.facts:
            object.__setattr__(fact, "at", tx.now)
            tx.record(run, fact)
        self.answer = run.row.pk


def make_ballot(call: ToolCall, decision: str, **more: str) -> gate.Ballot:
    """Return the ballot of a person who sees the call as it is now."""
    approval = call.as_card().approval
    assert approval is not None
    return gate.Ballot(
        approval=approval.id, decision=decision, rev=call.as_card().rev, args_sha256=approval.args_sha256, **more
    )


def pass_working_time(seconds: float) -> None:
    """Let every lease and limit of working time come nearer, as if servers had worked for so long."""
    group_commit.WRITER.drain()
    for run in Run.objects.filter(alive_until__isnull=False):
        with allow_log_writes():
            Run.objects.filter(pk=run.pk).update(alive_until=run.alive_until - seconds)
    gate.sweep()
