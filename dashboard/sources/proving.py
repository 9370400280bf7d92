"""What a source has proven that it can do, and the command that proves it."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolcards import connect
from toolcards.models import Proof, Source
from toolcards.sources import capabilities as proofs


@dataclass(frozen=True, slots=True)
class AbilityRow:
    """One row: `word` for people, `how` to prove it, and the latest evidence."""

    name: str
    word: str
    how: str
    proofs: list[Proof] = field(default_factory=list)

    @property
    def icon(self) -> str:
        """Return a warning icon if the source runs tools without a decision."""
        has_open_proof = any(proof.words.startswith(proofs.FAILS_OPEN) for proof in self.proofs)
        return "triangle-alert" if self.name == proofs.FAILS and has_open_proof else "circle-check"


_ROWS = (
    (proofs.OBSERVE, "Its calls are seen", "no call of it has come in."),
    (proofs.GATE, "Its calls can be held", "no call of it was held until a person had answered."),
    (proofs.EDIT, "Edited arguments run", "edit the arguments of a call that waits, and approve it."),
    (proofs.STREAM, "Arguments stream", "no arguments were seen while they were written."),
    (proofs.FAILS, "Without this server", "not known; the probe tests it where it can."),
)


def list_abilities(source: Source) -> list[AbilityRow]:
    """Return the rows of the source, with new evidence from the log."""
    all_proofs = proofs.list_proofs(source)
    return [AbilityRow(name, word, how, all_proofs[name]) for name, word, how in _ROWS]


def build_proof_command(source: Source, where: str) -> str:
    """Return the command to run where the agent runs.

    It uses the key that the agent's recipe has written, or asks for one.
    """
    names = {recipe.name for recipe in connect.RECIPES}
    if source.name in names:
        return f"toolcards connect {source.name} --only-probe {where}"
    return f"toolcards connect anything --only-probe {where} --key A-KEY-OF-THIS-SOURCE"
