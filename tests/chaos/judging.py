"""The comparison of a ledger with what the API shows, as one row of the table."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.chaos.clients import CONNECTION_ERRORS, Http
from tests.chaos.ledger import Book, Ledger, Question
from tests.chaos.stage import Stage

RECOVERY = 10.0  # seconds from a fault's end until every client works again
STORM = 10  # tracebacks in the log that are one too many
ANSWERS = {"approve": "allow", "deny": "deny"}


@dataclass
class Row:
    """The result of one scenario."""

    scenario: str
    setup: str
    acked: int = 0
    once: int = 0
    lost_count: int = 0
    doubled: int = 0
    told_once: int = 0
    told_otherwise: int = 0
    recovery: float | None = None
    tracebacks: int = 0
    replay: bool = False
    audit: bool = False
    samples: list[str] = field(default_factory=list)
    """What is wrong, by example, and why requests were refused."""
    skip_reason: str = ""
    """Why the scenario was not run."""

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept."""
        if self.skip_reason:
            return []
        promises = {
            "lost": self.lost_count, "doubled": self.doubled, "answers": self.told_otherwise,
            "recovery": self.recovery is None or self.recovery > RECOVERY, "tracebacks": self.tracebacks > STORM,
            "replay": not self.replay, "audit": not self.audit, "nothing acknowledged": not self.acked,
        }  # fmt: skip
        return [name for name, fault in promises.items() if fault]


def judge(name: str, stage: Stage, ledger: Ledger) -> Row:
    """Compare what the clients know with what the server shows; one that cannot be read is restarted for that."""
    row = Row(name, str(stage.setup), recovery=ledger.recovery())
    row.samples += [f"has not worked again: {client}" for client in ledger.stuck()]
    try:
        _read_all(row, stage, ledger)
    except AssertionError as error:
        stage.restart()
        samples = [*row.samples, f"restarted to be read: {error}"]
        row = Row(name, str(stage.setup), samples=samples)
        _read_all(row, stage, ledger)
    for question in ledger.questions.values():
        _judge_answers(row, question, ledger)
    row.samples += [f"{times} times: {why}" for why, times in ledger.refusals.most_common(8)]
    row.tracebacks = len(re.findall(r"^Traceback \(most recent call last\)", stage.log, re.MULTILINE))
    for command, check in ((("replay", "--check"), "replay"), (("audit", "verify"), "audit")):
        completed = stage.server.manage(*command)
        setattr(row, check, completed.returncode == 0)
        if completed.returncode:
            row.samples.append(f"{' '.join(command)}: {(completed.stdout + completed.stderr).strip()[-300:]}")
    return row


def _read_all(row: Row, stage: Stage, ledger: Ledger) -> None:
    reader = Http(stage.server)
    for run, book in ledger.books.items():
        _judge_marks(row, run, book, Counter(_marks(reader, run)))
        if book.calls:
            _judge_calls(row, run, book, list(_pages(reader, f"/api/v1/runs/{quote(run)}/calls", "calls")))


def _judge_marks(row: Row, run: str, book: Book, value: Counter[str]) -> None:
    for mark in book.acked:
        row.acked += 1
        row.once += value[mark] == 1
        row.lost_count += not value[mark]
    row.samples += [f"lost: {mark} of {run}" for mark in book.acked if not value[mark]][:3]
    twice = [mark for mark in (*book.acked, *book.unknown) if value[mark] > 1]
    row.doubled += len(twice)
    row.samples += [f"{value[mark]} times: {mark} of {run}" for mark in twice[:3]]


def _judge_calls(row: Row, run: str, book: Book, calls: list[dict[str, Any]]) -> None:
    cards_by_call: dict[str, list[dict[str, Any]]] = {}
    for call in calls:
        cards_by_call.setdefault(call["call_id"], []).append(call)
    for call_id, expected in book.calls.items():
        row.acked += 1
        cards = cards_by_call.get(call_id, [])
        if len(cards) > 1:
            row.doubled += 1
        right = [
            card for card in cards
            if card["state"] == "output-available" and not card["anomalies"] and expected.items() <= card.items()
        ]  # fmt: skip
        row.once += len(right) == len(cards) == 1
        row.lost_count += not right
        if not right:
            entries = [(card["state"], card["input"], card["output"], card["anomalies"]) for card in cards]
            row.samples.append(f"a card is wrong: {call_id} of {run}: {entries}"[:300])


def _judge_answers(row: Row, question: Question, ledger: Ledger) -> None:
    """An answer is right if it was delivered once, is the vote's, and its permit was claimed; or was refused."""
    votes = [vote for vote in ledger.votes if (vote.run, vote.call_id) == (question.run, question.call_id)]
    answers = [ANSWERS[vote.answer] for vote in votes if vote.status == 200]
    # Without a counted vote, the question ended in another way, or the vote's own answer was lost.
    right = question.answers == answers[:1] if answers else len(question.answers) == 1
    if question.polls and right and question.answers == ["allow"] and not question.refusal:
        right = question.claims.count(200) == 1
    row.told_once += right
    row.told_otherwise += not right
    if not right:
        text = f"votes {[(vote.answer, vote.status) for vote in votes]}, answers {question.answers} {question.codes}"
        row.samples.append(f"{question.call_id} of {question.run}: {text}, claims {question.claims} {question.refusal}")


def _marks(reader: Http, run: str) -> Iterator[str]:
    text = "".join(event.get("text", "") for event in _pages(reader, f"/api/v1/runs/{quote(run)}/events", "events"))
    yield from re.findall(r"\[(\w+)\]", text)


def _pages(reader: Http, path: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield all entries of a list; a server that does not answer is asked for a while."""
    cursor, tries = "", 0
    while True:
        try:
            status, result = reader.send("GET", f"{path}?limit=200" + (f"&cursor={quote(cursor)}" if cursor else ""))
        except CONNECTION_ERRORS as error:
            status, result = 0, repr(error)
        if status == 404:
            return
        if status != 200:
            tries += 1
            assert tries < 20, f"{path} is answered {status} {str(result)[:300]}"
            time.sleep(0.5)
            continue
        yield from result[name]
        cursor = result["next"]
        if not cursor:
            return
