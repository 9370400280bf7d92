"""Text and reasoning of an agent between its calls, as blocks between the cards of a run's page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.payloads import markdown
from dashboard.cards.safe_text import mark_html
from toolcards.core.calls.facts import TextDelta
from toolcards.encryption import get_redactor
from toolcards.models import Event, Run, ToolCall
from toolcards.models.prepared_selects import PreparedSelect
from toolcards.models.runs import FACT_HEAD

MAX_EVENTS = 5_000  # newest pieces of text that a page reads
MAX_CHARACTERS = 6_000  # of a block on a page
MAX_MASKED = 20_000  # of a block that are searched for secrets
ACTIVE = ("running", "waiting")  # a block that still grows
HINT = 120  # characters next to a closed block

# Open pages read these once a second for each run.
_STATUS = f"SELECT seq, status FROM {Run._meta.db_table} WHERE id = %s"  # noqa: S608 - our own names
_NEWEST_CALL = (
    f"SELECT ordinal FROM {ToolCall._meta.db_table}"  # noqa: S608 - our own names
    " WHERE run_id = %s AND seq <= %s ORDER BY ordinal DESC LIMIT 1"
)
_IS_TEXT = f'{FACT_HEAD}{TextDelta.type}"%'
_PIECES = PreparedSelect(
    Event, f"WHERE run_id = %s AND seq > %s AND seq <= %s AND fact LIKE %s ORDER BY seq DESC LIMIT {MAX_EVENTS}"
)


def _fetch_row(statement: str, *parameters: int) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


@dataclass(slots=True)
class TextBlock:
    """Text of one kind without a call in between. `after`: the ordinal of the newest call before it."""

    run: int
    seq: int  # of its first piece: its identity
    after: int
    channel: str  # "text" or "reasoning"
    lane: str
    at: float
    last_seq: int = 0
    size: int = 0
    is_open: bool = True  # more may follow
    _pieces: list[str] = field(default_factory=list)

    def append(self, text: str, seq: int) -> None:
        """Add a piece; what is beyond the limit is only counted."""
        if self.size < MAX_MASKED:
            self._pieces.append(text[: MAX_MASKED - self.size])
        self.size += len(text)
        self.last_seq = seq

    @property
    def text(self) -> str:
        """Return the text with secrets masked, up to the page's limit."""
        text, redactor = "".join(self._pieces), get_redactor()
        return (redactor.growing(text) if self.is_open else redactor.text(text)).strip()[:MAX_CHARACTERS]

    def render(self) -> SafeString:
        """Return the block as HTML, "" for blank text."""
        text = self.text
        if not text:
            return mark_safe("")
        is_prose = markdown.is_markdown(text, least=1)
        body = markdown.render_markdown(text) if is_prose else mark_html(text)
        flat = " ".join(text[: 2 * HINT].split())
        context = {
            "block": self, "dom": f"t-{self.run}-{self.seq}", "is_prose": is_prose,
            "body": mark_safe(body),  # noqa: S308 - both ways escape what they are given
            "hint": flat[:HINT] + "…" * (len(flat) > HINT),
            "left": max(0, self.size - MAX_CHARACTERS),
        }  # fmt: skip
        return mark_safe(render_to_string("runs/_text.html", context).strip())  # noqa: S308 - our own template's output


class Narration:
    """The text blocks of one run, read from the log."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.blocks: dict[int, TextBlock] = {}
        self._seq = 0
        self._ordinal = 0
        self._open: TextBlock | None = None

    def read(self) -> list[TextBlock]:
        """Read the log's new entries.

        Return the blocks that changed.
        """
        newest, status = _fetch_row(_STATUS, self.run) or (0, "")
        if newest <= self._seq:
            return []
        pieces = _PIECES.fetch_all(self.run, self._seq, newest, _IS_TEXT)[::-1]
        changed_blocks: dict[int, TextBlock] = {}
        if pieces:
            first_seq = pieces[0].seq if len(pieces) == MAX_EVENTS else 0
            log = Event.objects.filter(run=self.run, seq__gt=self._seq, seq__lte=newest)
            starts = (
                log.filter(seq__gte=first_seq, ordinal__gt=self._ordinal).order_by("seq").values_list("seq", "ordinal")
            )
            changed_blocks = self._take(pieces, list(starts.iterator(chunk_size=2_000)))
        self._ordinal = max([self._ordinal, *(_fetch_row(_NEWEST_CALL, self.run, newest) or ())])
        self._seq = newest
        if self._open and self._open.after < self._ordinal:
            changed_blocks |= self._close()
        elif self._open and self._open.is_open and status not in ACTIVE:  # text that comes nevertheless continues it
            self._open.is_open = False
            changed_blocks[self._open.seq] = self._open
        return [changed_blocks[seq] for seq in sorted(changed_blocks)]

    def _close(self) -> dict[int, TextBlock]:
        block, self._open = self._open, None
        if block is None:
            return {}
        block.is_open = False
        return {block.seq: block}

    def _take(self, pieces: list[Event], starts: list[tuple[int, int]]) -> dict[int, TextBlock]:
        changed_blocks: dict[int, TextBlock] = {}
        place = 0
        for event in pieces:
            while place < len(starts) and starts[place][0] < event.seq:
                self._ordinal = max(self._ordinal, starts[place][1])
                place += 1
            fact = event.readable_fact
            if isinstance(fact, TextDelta) and fact.text:
                key = (self._ordinal, fact.channel, fact.lane)
                if self._open and (self._open.after, self._open.channel, self._open.lane) != key:
                    changed_blocks |= self._close()
                block = self._open = self._open or self._begin(event, fact)
                block.is_open = True
                block.append(fact.text, event.seq)
                changed_blocks[block.seq] = block
        return changed_blocks

    def _begin(self, event: Event, fact: TextDelta) -> TextBlock:
        block = TextBlock(self.run, event.seq, self._ordinal, fact.channel, fact.lane, event.at)
        self.blocks[block.seq] = block
        return block
