"""A hand-written agent loop: tools as plain functions, each call asked about, run and told in one step.

tools = Tools([get_weather, delete_file])
with Toolcards().run(agent="scribe") as run:
    for call in what_the_model_wants():
        answer = tools.call(call.name, call.arguments, call.id)   # in async code: await tools.acall(…)
        give_back_to_the_model(call.id, answer.text, failed=not answer.ok)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

from . import repair_loop
from .answers import Decision
from .call_registry import CallRegistry, deny_without_run, find_registry, format_denial
from .common.input_repair import Offer, Repair
from .common.json_text import parse
from .common.tool_kinds import kind_of
from .failures import is_interruption
from .jsonable import to_jsonable
from .outputs import BadOutput, find_output_trouble
from .stream import Run, current
from .threads import run_in_thread
from .tracked_call import TrackedCall

__all__ = ["Answer", "Tools"]

UNFIT = "A person changed the arguments, and the tool does not take them: nothing ran."


@dataclass(frozen=True)
class Answer:
    """What a call came to. `text` is for the model; `value` is what the function returned; `state` is the card's."""

    state: str
    text: str
    value: Any = None

    @property
    def ok(self) -> bool:
        """The function ran and returned."""
        return self.state == "output-available"


class Tools:
    """Functions by their names, plain or async. The arguments may come as JSON text, as a model writes them.

    Several calls may have one id: each is asked about, and told, by itself.
    A call that cannot run as written is repaired where there is one way only (docs/hooks.md), else refused at once.
    `outputs`: JSON Schemas of results, by the tool's name. A result that does not fit, that JSON has no form for, or
    that is too long for a model is kept from it: the answer says why (`bad_output`), and `value` has it all the same.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        run: Run | None = None,
        *,
        seconds: float | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        named = functions if isinstance(functions, Mapping) else {each.__name__: each for each in functions}
        self._functions, self._run, self._seconds = dict(named), run, seconds
        self._outputs = dict(outputs or {})
        self._offers = {name: _offer(name, function) for name, function in self._functions.items()}

    def call(self, tool: str, args: Any, call_id: str) -> Answer:
        """Ask, run, tell. What the function raises becomes an answer; only being stopped is raised on."""
        registry, meant, refused = self._fits(tool, args, call_id)
        if registry is None or refused is not None:
            return refused or _denied(deny_without_run())
        call = registry.enter(call_id, tool, _read(args))
        decision = call.ask_now(_read(args), seconds=self._seconds, repaired=_if_changed(meant))
        chosen, refused = self._chosen(call, decision, meant)
        if refused is not None:
            return refused
        try:
            value = self._functions[meant.tool](**chosen)
        except BaseException as error:
            return _failed(call, error)
        return self._returned(call, meant.tool, value)

    async def acall(self, tool: str, args: Any, call_id: str) -> Answer:
        """The same, awaiting; a plain function runs in a thread."""
        registry, meant, refused = self._fits(tool, args, call_id)
        if registry is None or refused is not None:
            return refused or _denied(deny_without_run())
        call = registry.enter(call_id, tool, _read(args))
        decision = await call.ask(_read(args), seconds=self._seconds, repaired=_if_changed(meant))
        chosen, refused = self._chosen(call, decision, meant)
        if refused is not None:
            return refused
        function = self._functions[meant.tool]
        try:
            waits = inspect.iscoroutinefunction(function)
            value = await (function(**chosen) if waits else run_in_thread(function, **chosen))
        except BaseException as error:
            return _failed(call, error)
        return self._returned(call, meant.tool, value)

    def _chosen(self, call: TrackedCall, decision: Decision, meant: Repair) -> tuple[dict[str, Any], Answer | None]:
        """Return the arguments to run with, or why nothing runs: a deny, or an edit that the tool does not take."""
        if not decision.allowed:
            return {}, _denied(decision)
        if not decision.edited:
            return meant.input, None
        trouble = repair_loop.find_trouble(meant.tool, decision.args, self._offers)
        if trouble is None and isinstance(decision.args, dict):
            return decision.args, None
        call.error(UNFIT, code="invalid_input", retryable=False)
        return {}, Answer("output-error", UNFIT)

    def _returned(self, call: TrackedCall, tool: str, value: Any) -> Answer:
        why = find_output_trouble(value, self._outputs.get(tool), longest=True)
        if why:
            call.error(why, code=BadOutput.toolcards_code)
            return Answer("output-error", f"{BadOutput.toolcards_code}: {why} The tool did run.", value)
        call.output(value)
        told = to_jsonable(value)
        return Answer("output-available", told if isinstance(told, str) else json.dumps(told), value)

    def _fits(self, tool: str, args: Any, call_id: str) -> tuple[CallRegistry | None, Repair, Answer | None]:
        """The registry and the call as it can run, or why nothing can: no such tool, arguments that do not fit."""
        registry = find_registry(self._run or current())
        given = _read(args)
        repaired, trouble = repair_loop.find_usable_call(tool, given, self._offers, call_id)
        if trouble is None:
            return registry, repaired or Repair(tool, given, ""), None
        words = trouble.message(self._offers)
        if registry is not None:
            registry.invalid(call_id, tool, to_jsonable(args), words, trouble.code)
        return registry, Repair(tool, given, ""), Answer("output-error", words)


def _read(args: Any) -> Any:
    """The arguments as JSON, where a model wrote them as text."""
    if args is None or args == "":
        return {}
    whole, value = parse(args) if isinstance(args, str) else (True, args)
    return value if whole else args


def _if_changed(meant: Repair) -> Repair | None:
    return meant if meant.method else None


_SHAPES: dict[Any, str] = {dict: "object", list: "array"}


def _offer(name: str, function: Callable[..., Any]) -> Offer:
    """A function as a tool: which names it takes and wants, and which of them hold an object or a list."""
    try:
        hints = get_type_hints(function)
    except Exception:  # a name that only its type checker knows
        hints = {}
    taken = inspect.signature(function).parameters.values()
    named = [each for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    shapes = {each.name: _SHAPES.get(get_origin(hints.get(each.name)) or hints.get(each.name)) for each in named}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": shape} if shape else {} for name, shape in shapes.items()},
        "required": [each.name for each in named if each.default is each.empty],
    }
    if not any(each.kind is each.VAR_KEYWORD for each in taken):
        schema["additionalProperties"] = False
    return Offer(name, kind_of(name), schema)


def _denied(decision: Decision) -> Answer:
    return Answer("output-denied", format_denial(decision))


def _failed(call: TrackedCall, error: BaseException) -> Answer:
    call.failed(error)
    if is_interruption(error) or not isinstance(error, Exception):
        raise error
    return Answer("output-error", f"{type(error).__name__}: {error}")
