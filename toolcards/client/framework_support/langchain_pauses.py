"""LangChain's own pause, `HumanInTheLoopMiddleware`, answered by the gate. See `langchain`.

A tool that may be answered (`respond`) but not approved is a question: policy judges the call, and a form in the inbox
asks a person for the answer, which the model reads as the tool's result.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.types import Command

from ..decisions.answers import Decision
from ..stream import Run
from .call_registry import CallRegistry, require_registry
from .question_form import FormAnswer, ask_form, ask_form_now, build_form
from .tracked_call import TrackedCall

__all__ = ["aresume", "resume"]


def resume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """Return the gate's answer to a pause of `HumanInTheLoopMiddleware`.

    None if nothing is paused.
    while (answer := resume(result, run)): result = agent.invoke(answer, config)
    """
    pauses = _find_pauses(result, require_registry(run))
    return _make_command(pauses, [[pause.answer_now(call, seconds) for call in pause.calls] for pause in pauses])


async def aresume(result: Any, run: Run, *, seconds: float | None = None) -> Command[Any] | None:
    """Do the same in async code; several calls are submitted at once."""
    pauses = _find_pauses(result, require_registry(run))
    answers = [await asyncio.gather(*(pause.answer(call, seconds) for call in pause.calls)) for pause in pauses]
    return _make_command(pauses, answers)


class _PausedCall:
    """One call of a pause: its arguments, and what LangChain lets a person answer."""

    def __init__(self, call: TrackedCall, request: dict[str, Any], kinds: list[str]) -> None:
        self.call, self.args, self.kinds = call, request["args"], kinds
        self.is_question = "respond" in kinds and "approve" not in kinds
        description = request.get("description")
        is_standard = isinstance(description, str) and description.endswith(f"Args: {self.args}")
        self.description = description if isinstance(description, str) and not is_standard else ""

    def build_form(self, decision: Decision) -> dict[str, Any]:
        """Return the form for the question, whose arguments may be edited."""
        return build_form(self.call.tool, decision.args if decision.edited else self.args, self.description)

    def format_decision(self, decision: Decision) -> dict[str, Any]:
        """Return the decision in LangChain's format; a forbidden edit becomes a denial."""
        if not decision.allowed:
            return self.format_denial(decision.text or "This call was denied.")
        if not decision.edited:
            return {"type": "approve"}
        if "edit" in self.kinds:
            return {"type": "edit", "edited_action": {"name": self.call.tool, "args": decision.args}}
        message = f"A person changed the arguments. To continue, call the tool again with {decision.args}"
        self.call.denied(message)
        return self.format_denial(message)

    def format_denial(self, text: str) -> dict[str, Any]:
        """Return the denial, as an answer where only answers are allowed."""
        is_respond = "respond" in self.kinds and "reject" not in self.kinds
        return {"type": "respond" if is_respond else "reject", "message": text}


class _Pause:
    """One interrupt: its calls, and how they are answered."""

    def __init__(self, interrupt: Any, messages: list[Any], registry: CallRegistry) -> None:
        self.id, self._registry, value = interrupt.id, registry, interrupt.value
        self.single = value.get("type") == "tool_approval"  # its call has reached the tool, which ends it
        requests = [value] if self.single else value.get("action_requests", [])
        configs = value.get("review_configs", [])
        kinds = {config["action_name"]: config["allowed_decisions"] for config in configs}
        kinds_of_single = _read_kinds(getattr(interrupt, "response_schema", None))
        open_calls = [dict(call) for message in messages[-1:] for call in getattr(message, "tool_calls", None) or ()]
        self.calls = [
            _PausedCall(
                registry.enter(_find_call_id(each, open_calls), each["name"], each["args"]),
                each,
                kinds.get(each["name"]) or kinds_of_single or ["approve", "edit", "reject"],
            )
            for each in requests
        ]

    def answer_now(self, paused_call: _PausedCall, seconds: float | None) -> dict[str, Any]:
        """Return the answer to a call.

        When the call runs it gets the same decision. A question does not run.
        """
        decision = paused_call.call.ask_now(paused_call.args, seconds=seconds, take=self._ends_here(paused_call))
        if not decision.allowed or not paused_call.is_question:
            return paused_call.format_decision(decision)
        return self._settle(paused_call, ask_form_now(self._registry.run, paused_call.build_form(decision), seconds))

    async def answer(self, paused_call: _PausedCall, seconds: float | None) -> dict[str, Any]:
        """Do the same in async code."""
        decision = await paused_call.call.ask(paused_call.args, seconds=seconds, take=self._ends_here(paused_call))
        if not decision.allowed or not paused_call.is_question:
            return paused_call.format_decision(decision)
        return self._settle(paused_call, await ask_form(self._registry.run, paused_call.build_form(decision), seconds))

    def _ends_here(self, paused_call: _PausedCall) -> bool:
        return paused_call.is_question and not self.single

    def _settle(self, paused_call: _PausedCall, answer: FormAnswer) -> dict[str, Any]:
        """Return the answer in LangChain's format, and report it unless `Gate` sees it."""
        if self._ends_here(paused_call) and answer.is_given:
            paused_call.call.output(answer.text)
        elif self._ends_here(paused_call):
            paused_call.call.denied(answer.text)
        if answer.is_given:
            return {"type": "respond", "message": answer.text}
        return paused_call.format_denial(answer.text)


def _read_kinds(schema: Any) -> list[str]:
    """Return the kinds of decisions that the schema of an interrupt for one call allows."""
    if not isinstance(schema, dict):
        return []
    branches = schema.get("oneOf") or schema.get("anyOf") or [schema]
    definitions = schema.get("$defs") or {}
    schemas = [definitions.get(str(each.get("$ref", "")).removeprefix("#/$defs/"), each) for each in branches]
    kinds = [each.get("properties", {}).get("type", {}) for each in schemas]
    return [str(kind.get("const") or (kind.get("enum") or [""])[0]) for kind in kinds if kind]


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


def _make_command(pauses: list[_Pause], answers: list[list[dict[str, Any]]]) -> Command[Any] | None:
    if not pauses:
        return None
    return Command(
        resume={
            pause.id: formatted_answer[0] if pause.single else {"decisions": list(formatted_answer)}
            for pause, formatted_answer in zip(pauses, answers, strict=True)
        }
    )
