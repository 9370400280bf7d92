"""Commands: what they lock, what they find of their own source only, and how their sender hears of the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from toolcards.gate.refusals import NotFound
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import ApprovalCommand, Command, RunCommand
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall

pytestmark = pytest.mark.django_db


class Look(RunCommand):
    """Answers the run and, if it is given one, the approval that it finds."""

    def __init__(self, source: Source, run: str, approval: str = "") -> None:
        super().__init__(source, run)
        self.approval = approval

    def apply(self, tx: Any) -> None:
        memory = self._run(tx)
        assert tx.runs[memory.row.pk] is memory
        self.answer = memory.row.pk, self._load_approval(self.approval).pk if self.approval else ""


@pytest.fixture
def other(source: Source) -> Source:
    """Another source, with nothing of its own."""
    return AgentKey.objects.ensure("tck_" + "o" * 43, name="another agent").source


def test_a_command_on_a_run_finds_that_of_its_own_source_only(
    a_run: Callable[..., Run], source: Source, other: Source
) -> None:
    run, theirs = a_run("r"), a_run("r", source=other)
    assert group_commit.execute(Look(source, "r")) == (run.pk, "")
    assert group_commit.execute(Look(other, "r")) == (theirs.pk, "")
    for name in ("R", "r ", "", "none"):
        with pytest.raises(NotFound, match="Run not found"):
            group_commit.execute(Look(source, name))


def test_a_command_loads_an_approval_of_its_own_source_only(
    a_call: Callable[..., ToolCall], a_run: Callable[..., Run], source: Source, other: Source
) -> None:
    call, approval = a_call("approval-requested", run="r"), Approval.objects.get().pk
    a_run("r", source=other)
    assert group_commit.execute(Look(source, "r", approval)) == (call.run_id, approval)
    for owner, name in ((other, approval), (source, approval[:-1]), (source, approval + "\0")):
        with pytest.raises(NotFound, match="Approval not found"):
            group_commit.execute(Look(owner, "r", name))


def test_a_command_names_what_it_locks(source: Source) -> None:
    def list_locks(command: Any) -> tuple[list[Any], list[Any]]:
        return list(command.run_keys()), list(command.list_approvals())

    assert list_locks(Command()) == ([], [])
    assert list_locks(ApprovalCommand("apr_1")) == ([], ["apr_1"])
    assert list_locks(Look(source, "r")) == ([(source.pk, "r")], [])


class Finish(Command):
    """Notes in which order it is finished and what its sender could read then."""

    def __init__(self, notes: list[Any], error: Exception | None) -> None:
        super().__init__()
        self.failure = error
        self.on_finish = lambda: notes.append((self.error, self.answer))

    def run_keys(self) -> Iterable[tuple[int, str]]:
        return ()

    def apply(self, tx: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.answer = "done"


def test_the_sender_is_notified_once_after_the_answer_or_error_is_set() -> None:
    notes: list[Any] = []
    refusal = NotFound("Not found.")
    group_commit.commit([Finish(notes, None), Finish(notes, refusal)])
    assert notes == [(None, "done"), (refusal, None)]


def test_a_command_without_work_of_its_own_is_a_mistake() -> None:
    with pytest.raises(NotImplementedError):
        group_commit.execute(Command())
