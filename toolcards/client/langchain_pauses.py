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
    """Return the gate's answer to a pause of `HumanInTheLoopMiddleware`.

    None if nothing is paused.
    while (answer := resume(result, run)): result = agent.invoke(answer, config)
    """
    pauses = _find_pauses(result, require_registry(run))
    decisions = [[pause.ask_now(call, seconds) for call in pause.calls] for pause in pauses]
    return _make_command(pauses, decisions)


async def aresume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """Do the same in async code; several calls are submitted at once."""
    pauses = _find_pauses(result, require_registry(run))
    decisions = [await asyncio.gather(*(pause.ask(call, seconds) for call in pause.calls)) for pause in pauses]
    return _make_command(pauses, decisions)


class _Pause:
    """One interrupt: its calls, and how they are answered."""

    def __init__(self, interrupt: Any, messages: list[Any], registry: CallRegistry) -> None:
        self.id, value = interrupt.id, interrupt.value
        self.single = value.get("type") == "tool_approval"
        requests = [value] if self.single else value.get("action_requests", [])
        configs = value.get("review_configs", [])
        self.allowed = {config["action_name"]: config["allowed_decisions"] for config in configs}
        open_calls = [dict(call) for message in messages[-1:] for call in getattr(message, "tool_calls", None) or ()]
        identified = [(_find_call_id(each, open_calls), each["name"], each["args"]) for each in requests]
        self.calls = [(registry.enter(*each), each[2]) for each in identified]

    def ask_now(self, call: tuple[TrackedCall, Any], seconds: float | None) -> Decision:
        """Return the gate's decision.

        When the call runs it gets the same one.
        """
        return call[0].ask_now(call[1], seconds=seconds, take=False)

    async def ask(self, call: tuple[TrackedCall, Any], seconds: float | None) -> Decision:
        """Do the same in async code."""
        return await call[0].ask(call[1], seconds=seconds, take=False)

    def format_decision(self, decision: Decision, call: TrackedCall) -> dict[str, Any]:
        """Return the decision in LangChain's format; a forbidden edit becomes a rejection."""
        kinds = self.allowed.get(call.tool, ["approve", "edit", "reject"])
        if not decision.allowed:
            return {"type": "reject", "message": decision.text or "This call was denied."}
        if not decision.edited:
            return {"type": "approve"}
        if "edit" in kinds:
            return {"type": "edit", "edited_action": {"name": call.tool, "args": decision.args}}
        message = f"A person changed the arguments: call again with {decision.args}"
        call.denied(message)
        return {"type": "reject", "message": message}


def _find_pauses(result: Any, registry: CallRegistry) -> list[_Pause]:
    interrupts = getattr(result, "interrupts", None) or (
        result.get("__interrupt__") if isinstance(result, dict) else None
    )
    state = getattr(result, "value", result)
    messages = state.get("messages", []) if isinstance(state, dict) else getattr(state, "messages", [])
    pauses = [each for each in interrupts or () if isinstance(getattr(each, "value", None), dict)]
    return [_Pause(each, messages, registry) for each in pauses if {"action_requests", "type"} & set(each.value)]


def _find_call_id(request: Any, open_calls: list[dict[str, Any]]) -> str:
    """Return the call's id; a batch has none, so match by name and arguments, in order."""
    if request.get("tool_call_id"):
        return str(request["tool_call_id"])
    for call in open_calls:
        if call["name"] == request["name"] and call["args"] == request["args"]:
            open_calls.remove(call)
            return str(call["id"])
    return ""


def _make_command(pauses: list[_Pause], decisions: list[list[Decision]]) -> Command[Any] | None:
    if not pauses:
        return None
    answers: dict[str, Any] = {}
    for pause, decisions_of_pause in zip(pauses, decisions, strict=True):
        formatted = [
            pause.format_decision(each, call) for each, (call, _) in zip(decisions_of_pause, pause.calls, strict=True)
        ]
        answers[pause.id] = formatted[0] if pause.single else {"decisions": formatted}
    return Command(resume=answers)
