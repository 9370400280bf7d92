"""What followers in the writer's process get without opening a row: committed versions only, few and recent."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from tests.support.gate_commands import RecordFacts
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import committed_cards, run_cache
from toolcards.gate.writer.cache.committed_cards import CardVersion, find_committed_card
from toolcards.models import Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


def _record(source: Source, *facts: Any) -> ToolCall:
    pk = group_commit.execute(RecordFacts(source, "run", list(facts)))
    return ToolCall.objects.filter(run=pk).latest("seq")


def _get_version(call: ToolCall) -> CardVersion:
    return CardVersion(call.run_id, call.ordinal, call.rev, call.seq)


def test_a_committed_version_is_there_and_an_earlier_or_later_one_is_not(source: Source) -> None:
    before = _get_version(_record(source, f.InputReady("c1", "Bash", {"command": "ls"}, True)))
    call = _record(source, f.OutputReady("c1", "a.txt"))
    version = _get_version(call)
    assert find_committed_card(version) == call.as_card()
    assert find_committed_card(before) is None
    for change in ({"rev": version.rev + 1}, {"seq": version.seq + 1}, {"ordinal": 2}, {"run_id": 0}):
        assert find_committed_card(version._replace(**change)) is None


def test_nothing_is_there_before_the_commit_or_after_a_rollback(source: Source) -> None:
    version = _get_version(_record(source, f.InputReady("c1", "Bash", {"command": "ls"}, True)))
    versions = []
    for ending in ("rollback", "commit"):
        with transaction.atomic():
            versions.append(_get_version(_record(source, f.OutputReady("c1", ending))))
            assert find_committed_card(versions[-1]) is None and find_committed_card(version) is not None
            transaction.set_rollback(ending == "rollback")
        if ending == "rollback":
            run_cache.clear()  # the outer transaction is not the writer's: it does not know of its end
        card = find_committed_card(versions[-1])
        assert (card and card.output) == (None if ending == "rollback" else "commit")
    assert versions[0] == versions[1]  # the same version, of which only the second is true


def test_a_large_card_and_an_old_one_are_read_from_their_rows(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    large = _record(source, f.InputReady("c1", "Bash", {"command": "x" * committed_cards.MAX_SIZE}, True))
    assert find_committed_card(_get_version(large)) is None
    small = _record(source, f.InputReady("c2", "Bash", {"command": "ls"}, True))
    assert find_committed_card(_get_version(small)) is not None
    monkeypatch.setattr(committed_cards, "MAX_AGE", -1.0)
    assert find_committed_card(_get_version(small)) is None


def test_the_oldest_cards_go_first(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_cards, "MAX_CARDS", 3)
    calls = [_record(source, f.InputReady(f"c{n}", "Bash", {}, True)) for n in range(3)]
    calls[0] = _record(source, f.OutputReady("c0", 0))
    _record(source, f.InputReady("c4", "Bash", {}, True))
    assert [find_committed_card(_get_version(call)) is not None for call in calls] == [True, False, True]
