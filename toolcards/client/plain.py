"""A hand-written agent loop: tools as plain functions; one step gates, runs and reports each call.

tools = Tools([get_weather, delete_file])
with Toolcards().run(agent="scribe") as run:
    for call in what_the_model_wants():
        answer = tools.call(call.name, call.arguments, call.id)   # in async code: await tools.acall(…)
        give_back_to_the_model(call.id, answer.text, failed=not answer.ok)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

from .common.input_repair import Offer, Repair
from .common.json_text import parse
from .common.tool_kinds import find_kind
from .decisions.answers import Decision
from .framework_support.call_registry import CallRegistry, deny_without_run, find_registry, format_denial
from .framework_support.tracked_call import TrackedCall
from .stream import Run, current
from .transport.threads import get_background_loop, run_in_loop, run_in_thread
from .values import repair_loop
from .values.failures import is_interruption
from .values.jsonable import to_jsonable
from .values.outputs import BadOutput, find_output_trouble

__all__ = ["Answer", "Tools"]

UNFIT = "A person changed the arguments, but the tool does not accept them, so the call did not run."


@dataclass(frozen=True)
class Answer:
    """The result of a call. `text` is for the model; `value` is what the function returned; `state` is the card's."""

    state: str
    text: str
    value: Any = None

    @property
    def ok(self) -> bool:
        """Whether the function ran and returned."""
        return self.state == "output-available"


class Tools:
    """Functions by their names, plain or async. The arguments may come as JSON text, as a model writes them.

    Several calls can share an id: each is gated and reported separately.
    A call that cannot run as written is repaired if there is only one way (docs/hooks.md), otherwise refused.
    `outputs`: JSON Schemas of results, by the tool's name. A result that does not fit, is not JSON, or is too long is
    withheld from the model: the answer gives the reason (`bad_output`), and `value` has the result.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        run: Run | None = None,
        *,
        seconds: float | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        by_name = functions if isinstance(functions, Mapping) else {each.__name__: each for each in functions}
        self._functions, self._run, self._seconds = dict(by_name), run, seconds
        self._outputs = dict(outputs or {})
        self._offers = {name: _describe_function(name, function) for name, function in self._functions.items()}

    def call(self, tool: str, args: Any, call_id: str) -> Answer:
        """Ask, run, report. Exceptions become an answer; only interruptions are raised."""
        registry, usable, refusal = self._check_call(tool, args, call_id)
        if registry is None or refusal is not None:
            return refusal or _answer_denied(deny_without_run())
        call = registry.enter(call_id, tool, _parse_arguments(args))
        decision = call.ask_now(_parse_arguments(args), seconds=self._seconds, repair=_get_repair(usable))
        arguments, refusal = self._choose_arguments(call, decision, usable)
        if refusal is not None:
            return refusal
        try:
            value = self._functions[usable.tool](**arguments)
            if inspect.isawaitable(value):  # an async function, or a wrapper of one
                value = run_in_loop(_wait_for(value), get_background_loop())
        except BaseException as error:
            return _answer_failed(call, error)
        return self._report_output(call, usable.tool, value)

    async def acall(self, tool: str, args: Any, call_id: str) -> Answer:
        """Do the same in async code.

        A plain function runs in a thread.
        """
        registry, usable, refusal = self._check_call(tool, args, call_id)
        if registry is None or refusal is not None:
            return refusal or _answer_denied(deny_without_run())
        call = registry.enter(call_id, tool, _parse_arguments(args))
        decision = await call.ask(_parse_arguments(args), seconds=self._seconds, repair=_get_repair(usable))
        arguments, refusal = self._choose_arguments(call, decision, usable)
        if refusal is not None:
            return refusal
        function = self._functions[usable.tool]
        try:
            waits = inspect.iscoroutinefunction(function)
            value = await (function(**arguments) if waits else run_in_thread(function, **arguments))
            if inspect.isawaitable(value):
                value = await value
        except BaseException as error:
            return _answer_failed(call, error)
        return self._report_output(call, usable.tool, value)

    def _choose_arguments(
        self, call: TrackedCall, decision: Decision, usable: Repair
    ) -> tuple[dict[str, Any], Answer | None]:
        """Return the arguments to run with, or the answer if the call cannot run (denial, unusable edit)."""
        if not decision.allowed:
            return {}, _answer_denied(decision)
        if not decision.edited:
            return usable.input, None
        trouble = repair_loop.find_trouble(usable.tool, decision.args, self._offers)
        if trouble is None and isinstance(decision.args, dict):
            return decision.args, None
        call.error(UNFIT, code="invalid_input", retryable=False)
        return {}, Answer("output-error", UNFIT)

    def _report_output(self, call: TrackedCall, tool: str, value: Any) -> Answer:
        why = find_output_trouble(value, self._outputs.get(tool), longest=True)
        if why:
            call.error(why, code=BadOutput.toolcards_code)
            return Answer("output-error", f"{BadOutput.toolcards_code}: {why} The tool did run.", value)
        call.output(value)
        result = to_jsonable(value)
        return Answer("output-available", result if isinstance(result, str) else json.dumps(result), value)

    def _check_call(self, tool: str, args: Any, call_id: str) -> tuple[CallRegistry | None, Repair, Answer | None]:
        """Return the registry and the usable call, or the answer to an invalid call."""
        registry = find_registry(self._run or current())
        value = _parse_arguments(args)
        repair, trouble = repair_loop.find_usable_call(tool, value, self._offers, call_id)
        if trouble is None:
            return registry, repair or Repair(tool, value, ""), None
        words = trouble.message(self._offers)
        if registry is not None:
            registry.invalid(call_id, tool, to_jsonable(args), words, trouble.code)
        return registry, Repair(tool, value, ""), Answer("output-error", words)


async def _wait_for(work: Awaitable[Any]) -> Any:
    return await work


def _parse_arguments(args: Any) -> Any:
    """Return the arguments as JSON, also if a model wrote them as text."""
    if args is None or args == "":
        return {}
    is_complete, value = parse(args) if isinstance(args, str) else (True, args)
    return value if is_complete else args


def _get_repair(usable: Repair) -> Repair | None:
    return usable if usable.method else None


_SHAPES: dict[Any, str] = {dict: "object", list: "array"}


def _describe_function(name: str, function: Callable[..., Any]) -> Offer:
    """Return a function as an offered tool: its parameters, and which of them are objects or lists."""
    try:
        hints = get_type_hints(function)
    except Exception:  # a name that exists only for type checkers
        hints = {}
    parameters = inspect.signature(function).parameters.values()
    accepted_parameters = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    shapes = {
        each.name: _SHAPES.get(get_origin(hints.get(each.name)) or hints.get(each.name)) for each in accepted_parameters
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": shape} if shape else {} for name, shape in shapes.items()},
        "required": [each.name for each in accepted_parameters if each.default is each.empty],
    }
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        schema["additionalProperties"] = False
    return Offer(name, find_kind(name), schema)


def _answer_denied(decision: Decision) -> Answer:
    return Answer("output-denied", format_denial(decision))


def _answer_failed(call: TrackedCall, error: BaseException) -> Answer:
    call.failed(error)
    if is_interruption(error) or not isinstance(error, Exception):
        raise error
    return Answer("output-error", f"{type(error).__name__}: {error}")
