"""Random histories of the audit trail with random cuts, held against a model of what must be reported.

The model knows which witnesses an attack leaves: the anchor, the last verification, the process's memory, the acts
that other tables know of, and the counters. It reports a cut exactly where one of them has seen more than is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

import pytest
from django.db import connection, transaction
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.id_counters import reset_counters
from toolcards.audit import anchor, copies, verification, witnesses
from toolcards.audit.rows import AuditHead, AuditRow
from toolcards.audit.trail import Act, write_acts
from toolcards.models import AgentKey, KillSwitch

pytestmark = pytest.mark.django_db

STEPS = ("act", "act", "key", "switch", "anchor", "verify", "restart", "save", "another machine")
ATTACKS = (
    "nothing", "restart", "tail", "middle", "no anchor", "emptied", "emptied, head left", "forged", "old format",
    "rolled back", "rolled back with the note", "everything", "everything, counters too", "head",
)  # fmt: skip


@dataclass
class Model:
    """What is known of the trail outside its table: row numbers; `memory` of the process, `noted` by verifying."""

    rows: int = 0
    anchored: int | None = None  # None: no trail was ever begun
    memory: int = 0
    noted_row: int = 0
    evidence: list[int] = field(default_factory=list)  # rows that another table's row goes with
    savepoints: list[tuple[int, str, str | None, int]] = field(default_factory=list)  # rows, anchor, note, noted


@dataclass(frozen=True)
class Cut:
    """How many rows an attack leaves, and which witnesses."""

    last_row: int
    anchored: int | None
    noted_row: int
    always: bool = False
    evidence: bool = True
    counters: bool = True


class Story:
    """One history: it happens in the database, and in the model."""

    def __init__(self) -> None:
        self.model = Model()

    def step(self, name: str) -> None:
        model = self.model
        if name in ("act", "key", "switch", "another machine"):
            self._happen(name)
        elif name == "anchor":
            anchor.write()
            if model.memory:
                model.anchored = max(model.anchored or 0, model.memory)
        elif name == "verify":
            assert verification.verify_and_store().fault == ""
            model.noted_row = model.rows
            model.anchored = model.rows if model.rows else model.anchored
        elif name == "restart":
            self.forget()
        elif model.rows and anchor.get_path().exists():
            shown_text = verification.get_path().read_text() if verification.get_path().exists() else None
            model.savepoints.append((model.anchored or 0, anchor.get_path().read_text(), shown_text, model.noted_row))

    def _happen(self, name: str) -> None:
        model = self.model
        model.anchored = model.anchored or 0
        if name == "key":
            AgentKey.objects.issue(f"agent {model.rows}")
        elif name == "switch":
            with transaction.atomic():
                KillSwitch.objects.create(on=True, by="ann", at=verification.time.time())
                write_acts(Act("killswitch.on"))
        else:
            write_acts(Act(name))
        model.rows += 1
        if name in ("key", "switch"):
            model.evidence.append(model.rows)
        if name != "another machine":
            end = AuditHead.objects.get(pk=1)
            anchor.note_end(end.seq, end.hash)
            model.memory = model.rows

    def forget(self) -> None:
        """A restart that had no time to write the anchor."""
        if anchor._process.timer is not None:
            anchor._process.timer.cancel()
        anchor._process = anchor._Process()
        self.model.memory = 0

    # ------------------------------------------------------------ attacks

    def attack(self, name: str, keep: int) -> Cut:
        """Do it, and return what it leaves."""
        model = self.model
        keep = min(keep, model.rows)
        if name == "tail":
            self._cut(keep)
            return Cut(keep, model.anchored, model.noted_row)
        if name == "middle":
            keep = max(1, min(keep, model.rows))
            _sql(f"DELETE FROM toolcards_auditrow WHERE seq = {keep}")
            return Cut(keep - 1, model.anchored, model.noted_row, always=True)
        if name == "no anchor":
            anchor.get_path().unlink()
            return Cut(model.rows, None, model.noted_row, always=True)
        if name == "head":
            _sql("UPDATE toolcards_audithead SET seq = 0, hash = 'x'")
            return Cut(model.rows, model.anchored, model.noted_row, always=True)
        if name in ("forged", "old format"):
            return self._forged(keep, name)
        if name.startswith("rolled back"):
            return self._rolled_back(keep, note_too=name.endswith("note"))
        if name.startswith(("emptied", "everything")):
            return self._emptied(name)
        if name == "restart":
            self.forget()
        return Cut(model.rows, model.anchored, model.noted_row)

    def _cut(self, keep: int) -> None:
        _sql(f"DELETE FROM toolcards_auditrow WHERE seq > {keep}")
        end = AuditRow.objects.filter(seq=keep).values_list("seq", "hash").first() or (0, anchor.GENESIS)
        AuditHead.objects.filter(pk=1).update(seq=end[0], hash=end[1])

    def _forged(self, keep: int, name: str) -> Cut:
        row_hash = AuditRow.objects.filter(seq=keep).values_list("hash", flat=True).first() or anchor.GENESIS
        current = anchor.read()
        assert current is not None
        line = anchor.serialize_anchor(current)
        if name == "old format":
            line = f'{{"seq": {keep}, "hash": "{row_hash}"}}'
        else:
            line = line.replace(f'"seq":{current.seq},', f'"seq":{keep},').replace(current.hash, row_hash)
        anchor.get_path().write_text(line)
        self._cut(keep)
        untouched = name == "forged" and keep == current.seq
        return Cut(keep, current.seq if untouched else None, self.model.noted_row, always=not untouched)

    def _rolled_back(self, keep: int, *, note_too: bool) -> Cut:
        rows, line, note, noted_row = self.model.savepoints[keep % len(self.model.savepoints)]
        anchor.get_path().write_text(line)
        if note_too:
            verification.get_path().unlink(missing_ok=True)
            if note is not None:
                verification.get_path().write_text(note)
        self._cut(rows)
        return Cut(rows, rows, noted_row if note_too else self.model.noted_row)

    def _emptied(self, name: str) -> Cut:
        _sql("DELETE FROM toolcards_auditrow")
        if name == "emptied, head left":
            AuditHead.objects.filter(pk=1).update(seq=0, hash=anchor.GENESIS)
        else:
            _sql("DELETE FROM toolcards_audithead")
        anchor.get_path().unlink()
        verification.get_path().unlink(missing_ok=True)
        if name.startswith("everything"):
            _sql("DELETE FROM toolcards_agentkey", "DELETE FROM toolcards_source", "DELETE FROM toolcards_killswitch")
        if name.endswith("too"):
            reset_counters()
        return Cut(0, None, 0, evidence=name.startswith("emptied"), counters=not name.endswith("too"))

    # ------------------------------------------------------------ what must be reported

    def expected(self, cut: Cut) -> bool:
        """Whether something that is left has seen more than the table has."""
        model = self.model
        lost_rows = [row for row in model.evidence if row > cut.last_row]
        highest_row = max(cut.anchored or 0, cut.noted_row, model.memory)
        shows_loss = bool(lost_rows) and (cut.evidence or cut.counters) and (cut.evidence or cut.last_row == 0)
        set_back = cut.anchored is not None and max(cut.noted_row, model.memory) > cut.anchored
        return cut.always or highest_row > cut.last_row or shows_loss or (set_back and cut.anchored != model.anchored)


def _sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(autouse=True)
def nothing_was_ever_there(db: None) -> None:
    reset_counters()


_histories = st.lists(st.sampled_from(STEPS), min_size=1, max_size=14)


@pytest.mark.slow
@draw(120)
@example(history=["restart"], attack="old format", keep=0, restarts=False, goes_on=0)
@given(
    history=_histories,
    attack=st.sampled_from(ATTACKS),
    keep=st.integers(0, 14),
    restarts=st.booleans(),
    goes_on=st.integers(0, 4),
)
def test_a_cut_is_reported_wherever_anything_has_seen_more(
    history: list[str], attack: str, keep: int, restarts: bool, goes_on: int
) -> None:
    with transaction.atomic(), mock.patch.object(witnesses, "RECENT_SECONDS", 0.0):
        story = Story()
        anchor.reset()
        verification.get_path().unlink(missing_ok=True)
        _sql("DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead")
        reset_counters()
        for step in ("act", "save", *history):
            story.step(step)
        cut = story.attack(attack, keep)
        if restarts:
            story.forget()
        expected = story.expected(cut)
        outcomes = [verification.verify()]
        for _ in range(goes_on if attack != "head" else 0):
            write_acts(Act("goes on"))
            outcomes.append(verification.verify_and_store())
        reported = [finding.fault for finding in outcomes]
        assert all(reported) if expected else not any(reported), (story.model, cut, reported)
        transaction.set_rollback(True)


@pytest.mark.slow
@settings(max_examples=50)
@given(history=_histories, keep=st.integers(0, 14), goes_on=st.integers(0, 4))
def test_a_copy_outside_reports_what_the_key_itself_has_hidden(history: list[str], keep: int, goes_on: int) -> None:
    """The attacker signs what they want: only a copy that they cannot reach shows what is gone."""
    with transaction.atomic():
        story = Story()
        anchor.reset()
        verification.get_path().unlink(missing_ok=True)
        reset_counters()
        for step in ("act", *history, "verify"):
            story.step(step)
        current = anchor.read()
        assert current is not None
        copy = [anchor.serialize_anchor(current)]
        assert copies.compare_copies(copy).faults == []
        keep = min(keep, story.model.rows - 1)
        story._cut(keep)
        anchor.accept_end(verification._find_end(keep))
        for _ in range(goes_on):
            write_acts(Act("goes on"))
        assert copies.compare_copies(copy).faults != []
        transaction.set_rollback(True)
