"""What the server answered, read so that everything unclear is a no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Decision", "Denied", "denial", "read"]

EFFECTS = ("allow", "deny", "ask")


class Denied(Exception):
    """The call may not run; the message is fit for the model's eyes."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.text or "This call was denied.")
        self.decision = decision


@dataclass(frozen=True)
class Decision:
    """May this call run? `effect` is allow, deny or ask (a person has not answered yet)."""

    effect: str
    call_id: str = ""
    code: str = ""
    text: str = ""
    by: str = ""
    args_sha256: str = ""
    approval: str = ""
    permit: str = ""
    args: Any = None  # what to run where a person, a repair or a plug-in changed what was asked (`edited`)
    edited: bool = False
    tool: str = ""  # the tool to run where a repair put its name right
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def allowed(self) -> bool:
        """It may run."""
        return self.effect == "allow"

    @property
    def waiting(self) -> bool:
        """A person is asked."""
        return self.effect == "ask"


def denial(text: str, call_id: str = "", code: str = "gate_error") -> Decision:
    """Return the no that we say ourselves, where the server said nothing clear."""
    return Decision("deny", call_id=call_id, code=code, text=text, by="client")


def read(answer: Any, call_id: str) -> Decision:
    """Return the decision object of the server as a Decision; whatever is not plainly one is a deny."""
    if not isinstance(answer, Mapping) or answer.get("decision") not in EFFECTS:
        return denial("The gate's answer was not understood.", call_id)
    if answer.get("call_id") != call_id:
        return denial("The gate answered for another call.", call_id)
    approval, permit = _of(answer, "approval"), _of(answer, "permit")
    if answer["decision"] == "ask" and not approval.get("id"):
        return denial("The gate asks a person but does not say where to wait.", call_id)
    return Decision(
        effect=answer["decision"],
        call_id=call_id,
        code=str(_of(answer, "reason").get("code") or ""),
        text=str(_of(answer, "reason").get("text") or ""),
        by=str(_of(answer, "by").get("kind") or ""),
        args_sha256=str(answer.get("args_sha256") or ""),
        approval=str(approval.get("id") or ""),
        permit=str(permit.get("id") or ""),
        args=answer.get("args"),
        edited="args" in answer,
        tool=str(_of(answer, "tool").get("name") or ""),
        raw=answer,
    )


def _of(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = answer.get(name)
    return part if isinstance(part, Mapping) else {}
