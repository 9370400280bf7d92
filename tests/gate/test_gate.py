"""Entry points of the gate: one writer, one decision per approval, and a log that explains every change."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection, connections

from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import rebuild
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import Approval, Event, LogIsFinal, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes

ASK = {"default": "ask"}
pytestmark = pytest.mark.django_db(transaction=True)


def asking(run: str = "r", call: str = "c", **more: Any) -> gate.DecisionRequest:
    return gate.DecisionRequest(**{"run": run, "call_id": call, "tool": "bash", "args": {"command": "ls"}} | more)


@pytest.mark.parametrize(
    "state",
    [
        "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
        "output-error", "output-denied",
    ],
)  # fmt: skip
def test_every_state_is_reached_through_the_gate(state: str, a_call: Any) -> None:
    assert a_call(state).as_card().state == state


def test_the_log_is_never_changed(a_call: Any) -> None:
    a_call("output-available")
    with pytest.raises(LogIsFinal):
        Event.objects.all().update(seq=1)
    with pytest.raises(LogIsFinal):
        Event.objects.all().delete()


def test_an_approved_call_gets_a_permit_for_exactly_its_arguments(
    source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    policy(ASK)
    decision = gate.decide(source, asking())
    assert (decision["decision"], decision["permit"]) == ("ask", None)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    again = gate.decide(source, asking())
    assert again["decision"] == "allow"
    assert again["by"] == {"kind": "human", "name": "ann", "ids": ["ann"]}
    assert again["permit"]["id"]
    assert again["args_sha256"] == decision["args_sha256"]


def test_asking_the_same_again_gives_the_same_approval(source: Any, policy: Any, an_approver: Any) -> None:
    policy(ASK)
    first, second = gate.decide(source, asking()), gate.decide(source, asking())
    assert first["approval"]["id"] == second["approval"]["id"]
    assert Approval.objects.count() == 1


def test_an_attempt_is_refused_with_other_arguments(source: Any, policy: Any, an_approver: Any) -> None:
    policy(ASK)
    gate.decide(source, asking())
    with pytest.raises(gate.KeyReuse) as error:
        gate.decide(source, asking(args={"command": "rm -rf /"}, attempt=1))
    assert error.value.details["attempt"] == 2
    assert Approval.objects.get().state == "pending"


def test_other_arguments_without_an_attempt_replace_the_open_question(
    source: Any, policy: Any, an_approver: Any
) -> None:
    policy(ASK)
    first = gate.decide(source, asking())
    second = gate.decide(source, asking(args={"command": "rm -rf /"}))
    assert (first["attempt"], second["attempt"], second["decision"]) == (1, 2, "ask")
    assert Approval.objects.get(id=first["approval"]["id"]).state == "superseded"


def test_without_a_policy_nothing_is_allowed(source: Any) -> None:
    decision = gate.decide(source, asking())
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "gate_error")


def test_no_one_to_ask_means_a_denial(source: Any, policy: Any) -> None:
    policy(ASK)
    decision = gate.decide(source, asking(can_wait=False))
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "no_approver")


def test_the_second_answer_loses_and_learns_who_won(a_call: Any, an_approver: Any, a_person: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    gate.vote(an_approver, ballot(call, "deny"))
    with pytest.raises(gate.AlreadyDecided) as error:
        gate.vote(a_person("approver", "bob"), ballot(call, "approve"))
    assert error.value.details["by"] == "ann"


def test_of_two_answers_at_once_one_wins(a_call: Any, an_approver: Any, a_person: Any, ballot: Any) -> None:
    call, outcomes, ready = a_call("approval-requested"), [], threading.Barrier(2)

    def cast(person: Any, decision: str, value: gate.Ballot) -> None:
        ready.wait()
        try:
            gate.vote(person, value)
            outcomes.append(decision)
        except gate.AlreadyDecided:
            outcomes.append("lost")
        finally:
            connection.close()

    votes = [(an_approver, "approve"), (a_person("approver", "bob"), "deny")]
    threads = [threading.Thread(target=cast, args=(who, what, ballot(call, what))) for who, what in votes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) in (["approve", "lost"], ["deny", "lost"])
    won = "approved" if "approve" in outcomes else "denied"
    assert Approval.objects.get().state == won


def test_the_same_answer_again_is_no_second_answer(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    gate.vote(an_approver, vote)
    assert gate.vote(an_approver, vote).state == "approval-responded"


def test_an_answer_to_what_was_not_shown_does_not_count(a_call: Any, an_approver: Any, ballot: Any) -> None:
    vote = ballot(a_call("approval-requested"), "approve")
    for change in ({"rev": vote.rev - 1}, {"args_sha256": "0" * 64}):
        other = gate.Ballot(**{name: getattr(vote, name) for name in gate.Ballot.__slots__} | change)
        with pytest.raises(gate.CallChanged):
            gate.vote(an_approver, other)
    assert Approval.objects.get().state == "pending"


def test_what_has_expired_cannot_be_approved(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    with allow_log_writes():
        Approval.objects.update(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        gate.vote(an_approver, vote)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.denied_by.kind) == ("output-denied", "timeout")


def test_one_bad_piece_of_work_does_not_lose_its_neighbours(source: Any, a_run: Any) -> None:
    run = a_run("good")

    class Broken:
        urgent, error = True, None

        def mark_dequeued(self) -> None:
            pass

        def run_keys(self) -> list[Any]:
            return []

        def apply(self, tx: Any) -> None:
            raise RuntimeError("broken")

        def finish(self, error: Exception | None) -> None:
            self.error = error

    broken, good = Broken(), gate.agents.run_commands.RecordHeartbeat(source, "good")
    group_commit.commit([broken, good])
    assert isinstance(broken.error, RuntimeError)
    assert good.error is None
    assert Run.objects.get(pk=run.pk).alive_until


def test_rebuilding_repairs_a_card_that_differs_from_the_log(a_call: Any) -> None:
    call = a_call("output-available")
    with allow_log_writes():
        ToolCall.objects.filter(pk=call.pk).update(
            state="input-available", card=call.card.replace('"ok":true', '"ok":false')
        )
    assert len(gate.rebuild(check=True)) == 1
    assert len(gate.rebuild()) == 1
    assert gate.rebuild(check=True) == []
    assert ToolCall.objects.get().state == "output-available"


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        ("state", "output-error"), ("tool", "ls"), ("kind", "read"), ("agent", "somebody"), ("soft", True),
        ("waiting", True), ("removed", True), ("beyond_control", True),
    ],
)  # fmt: skip
def test_rebuilding_repairs_wrong_search_columns(a_call: Any, column: str, wrong: Any) -> None:
    call = a_call("output-available")
    with allow_log_writes():
        ToolCall.objects.filter(pk=call.pk).update(**{column: wrong})
    [result] = gate.rebuild(check=True)
    assert column in result
    gate.rebuild()
    assert gate.rebuild(check=True) == []
    assert getattr(ToolCall.objects.get(), column) == getattr(call, column)


def test_what_a_server_writes_while_the_check_reads_is_no_difference(
    a_run: Any, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run("live", f.InputStarted("c1", "Bash"))
    fold, folded = rebuild.fold_log, []

    def fold_after_news(run: Run) -> Any:
        if not folded:
            group_commit.execute(RecordFacts(source, "live", [f.InputReady("c1", "Bash", {}, True)]))
        folded.append(run)
        return fold(run)

    monkeypatch.setattr(rebuild, "fold_log", fold_after_news)
    assert gate.rebuild(check=True) == [] and len(folded) == 2


def test_rebuilding_repairs_a_wrong_count(a_call: Any) -> None:
    run = a_call("output-available").run
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(counts='{"output-error": 2}')
    assert len(gate.rebuild(check=True)) == 1
    gate.rebuild()
    assert Run.objects.get().count_by_state == {"output-available": 1}


def test_a_text_cut_inside_an_emoji_is_stored_as_it_was(a_run: Any) -> None:
    a_run("r", f.InputStarted("c", "bash"), f.InputDelta("c", '"\ud83d'))
    assert str(ToolCall.objects.get().as_card().text) == '"\ud83d'


# ---------------------------------------------------------------- the journal


class Hesitant(group_commit.Writer):
    """A writer whose thread is held up after each thing that it notes, so that others can look at it half-way."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if threading.current_thread().name == "journal":
            time.sleep(0.05)


class Note(Command):
    """A piece of work that writes nothing."""

    over = False

    def apply(self, tx: Any) -> None:
        pass

    def finish(self, error: Exception | None) -> None:
        connections.close_all()  # of a thread that gets no more work
        self.over = True


def test_who_waits_for_the_journal_waits_for_what_it_has_taken_and_not_begun() -> None:
    writer, work = Hesitant(), Note()
    writer.enqueue(work)
    writer.drain(PATIENCE)
    assert work.over
