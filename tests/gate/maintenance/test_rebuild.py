"""Cards that differ from the log: found, and rebuilt."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection, transaction

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import rebuild
from toolcards.gate.writer import group_commit
from toolcards.models import Event, Run, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_runs_from_before_replaced_requests_were_listed_do_not_differ(a_run: Any) -> None:
    requests = [f.ApprovalRequested("c1", f"q{number}") for number in range(3)]
    run = a_run("old", f.InputReady("c1", "Bash", {}, True), *requests)
    call = ToolCall.objects.get()
    assert call.as_card().approval.former_ids == ("q0", "q1")
    with transaction.atomic(), allow_log_writes(), allow_event_changes(), connection.cursor() as cursor:
        ToolCall.objects.update(card=_drop_former_ids(call.card))
        for event in Event.objects.filter(run=run):
            fact = _drop_former_ids(event.fact)
            cursor.execute("UPDATE toolcards_event SET fact = %s WHERE id = %s", [fact, event.pk])
    assert ToolCall.objects.get().as_card().approval.former_ids == ()
    assert gate.rebuild(check=True) == []


def _drop_former_ids(text: str) -> str:
    return re.sub(r',?"former_ids":\s*\[[^]]*\]', "", text)


def test_rebuilding_repairs_a_wrong_count(a_call: Any) -> None:
    run = a_call("output-available").run
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(counts='{"output-error": 2}')
    assert len(gate.rebuild(check=True)) == 1
    gate.rebuild()
    assert Run.objects.get().count_by_state == {"output-available": 1}
