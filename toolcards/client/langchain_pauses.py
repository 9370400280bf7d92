"""LangChain's own pause, `HumanInTheLoopMiddleware`, answered by the gate. See `langchain`."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.types import Command

from .answers import Decision
from .call_registry import CallRegistry, require_registry
from .stream import Run
from .tracked_call import TrackedCall

__all__ = ["aresume", "resume"]


def resume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """Return the answer to a pause of `HumanInTheLoopMiddleware`, from the gate; None where nothing is paused.

    while (answer := resume(result, run)): result = agent.invoke(answer, config)
    """
    pauses = _pauses(result, require_registry(run))
    decisions = [[pause.ask_now(call, seconds) for call in pause.calls] for pause in pauses]
    return _command(pauses, decisions)


async def aresume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """The same, awaiting; several calls are asked about at once."""
    pauses = _pauses(result, require_registry(run))
    decisions = [await asyncio.gather(*(pause.ask(call, seconds) for call in pause.calls)) for pause in pauses]
    return _command(pauses, decisions)


class _Pause:
    """One interrupt: the calls it asks about, and how they are answered."""

    def __init__(self, interrupt: Any, messages: list[Any], registry: CallRegistry) -> None:
        self.id, value = interrupt.id, interrupt.value
        self.single = value.get("type") == "tool_approval"
        wanted = [value] if self.single else value.get("action_requests", [])
        configs = value.get("review_configs", [])
        self.allowed = {config["action_name"]: config["allowed_decisions"] for config in configs}
        open_calls = [dict(call) for message in messages[-1:] for call in getattr(message, "tool_calls", None) or ()]
        named = [(_id_of(each, open_calls), each["name"], each["args"]) for each in wanted]
        self.calls = [(registry.enter(*each), each[2]) for each in named]

    def ask_now(self, call: tuple[TrackedCall, Any], seconds: float | None) -> Decision:
        """Return the gate's answer; the call is asked about again, and gets it, where it runs."""
        return call[0].ask_now(call[1], seconds=seconds, take=False)

    async def ask(self, call: tuple[TrackedCall, Any], seconds: float | None) -> Decision:
        """The same, awaiting."""
        return await call[0].ask(call[1], seconds=seconds, take=False)

    def decision(self, decision: Decision, call: TrackedCall) -> dict[str, Any]:
        """The gate's answer in LangChain's words. An edit that is not allowed there is a rejection that says so."""
        kinds = self.allowed.get(call.tool, ["approve", "edit", "reject"])
        if not decision.allowed:
            return {"type": "reject", "message": decision.text or "This call was denied."}
        if not decision.edited:
            return {"type": "approve"}
        if "edit" in kinds:
            return {"type": "edit", "edited_action": {"name": call.tool, "args": decision.args}}
        words = f"A person changed the arguments: call again with {decision.args}"
        call.denied(words)
        return {"type": "reject", "message": words}


def _pauses(result: Any, registry: CallRegistry) -> list[_Pause]:
    found = getattr(result, "interrupts", None) or (result.get("__interrupt__") if isinstance(result, dict) else None)
    state = getattr(result, "value", result)
    messages = state.get("messages", []) if isinstance(state, dict) else getattr(state, "messages", [])
    wanted = [each for each in found or () if isinstance(getattr(each, "value", None), dict)]
    return [_Pause(each, messages, registry) for each in wanted if {"action_requests", "type"} & set(each.value)]


def _id_of(wanted: Any, open_calls: list[dict[str, Any]]) -> str:
    """The id of the call that is asked about; a batch names none, so name and arguments tell, in order."""
    if wanted.get("tool_call_id"):
        return str(wanted["tool_call_id"])
    for call in open_calls:
        if call["name"] == wanted["name"] and call["args"] == wanted["args"]:
            open_calls.remove(call)
            return str(call["id"])
    return ""


def _command(pauses: list[_Pause], decisions: list[list[Decision]]) -> Command[Any] | None:
    if not pauses:
        return None
    answers: dict[str, Any] = {}
    for pause, decided in zip(pauses, decisions, strict=True):
        told = [pause.decision(each, call) for each, (call, _) in zip(decided, pause.calls, strict=True)]
        answers[pause.id] = told[0] if pause.single else {"decisions": told}
    return Command(resume=answers)
