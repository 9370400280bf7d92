"""How a call stands that its agent names by tool and input alone."""

from __future__ import annotations

from typing import Any

from toolcards.client.common.json_text import same
from toolcards.core.calls.card import ToolCallState
from toolcards.gate.approvals.permits import build_decision_with_permit
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Source

_DECIDED_STATES = (ToolCallState.APPROVAL_REQUESTED, ToolCallState.APPROVAL_RESPONDED, ToolCallState.OUTPUT_DENIED)


class FindDecision(RunCommand):
    """The decision object of the newest such call that was asked for or refused; None if there is none."""

    def __init__(self, source: Source, run: str, tool: str, given: Any) -> None:
        super().__init__(source, run)
        self.tool, self.given = tool, given

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        for card in reversed(memory.board.cards.values()):
            if card.tool.name == self.tool and not card.removed and same(card.input, self.given):
                if card.state in _DECIDED_STATES:
                    self.answer = build_decision_with_permit(memory, card)
                return
