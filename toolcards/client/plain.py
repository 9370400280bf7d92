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
from typing import Any

from .answers import Decision
from .asking import aside
from .faults import aborted
from .jsonable import jsonable
from .ledger import Ledger, closed, ledger_of, refusal
from .live import Run, current

__all__ = ["Answer", "Tools"]


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
    """Functions by their names, plain or async. The arguments may come as JSON text, as a model writes them."""

    def __init__(
        self,
        functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        run: Run | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        named = functions if isinstance(functions, Mapping) else {each.__name__: each for each in functions}
        self._functions, self._run, self._seconds = dict(named), run, seconds

    def call(self, tool: str, args: Any, call_id: str) -> Answer:
        """Ask, run, tell. What the function raises becomes an answer; only being stopped is raised on."""
        ledger, given, refused = self._fits(tool, args, call_id)
        if ledger is None or refused is not None:
            return refused or _denied(closed())
        decision = ledger.ask_now(call_id, tool, given, seconds=self._seconds)
        if not decision.allowed:
            return _denied(decision)
        try:
            value = self._functions[tool](**_chosen(decision, given))
        except BaseException as error:
            return _failed(ledger, call_id, error)
        return _returned(ledger, call_id, value)

    async def acall(self, tool: str, args: Any, call_id: str) -> Answer:
        """The same, awaiting; a plain function runs in a thread."""
        ledger, given, refused = self._fits(tool, args, call_id)
        if ledger is None or refused is not None:
            return refused or _denied(closed())
        decision = await ledger.ask(call_id, tool, given, seconds=self._seconds)
        if not decision.allowed:
            return _denied(decision)
        function, chosen = self._functions[tool], _chosen(decision, given)
        try:
            waits = inspect.iscoroutinefunction(function)
            value = await (function(**chosen) if waits else aside(function, **chosen))
        except BaseException as error:
            return _failed(ledger, call_id, error)
        return _returned(ledger, call_id, value)

    def _fits(self, tool: str, args: Any, call_id: str) -> tuple[Ledger | None, dict[str, Any], Answer | None]:
        """The ledger and the arguments, or why nothing can run: no such tool, arguments that do not fit."""
        ledger = ledger_of(self._run or current())
        wrong, code, given = "", "invalid_input", args
        if tool not in self._functions:
            wrong, code = f"There is no tool {tool!r}; there are {', '.join(sorted(self._functions))}.", "no_such_tool"
        else:
            given, wrong = _given(self._functions[tool], args)
        if not wrong:
            return ledger, given, None
        if ledger is not None:
            ledger.invalid(call_id, tool, jsonable(args), wrong, code)
        return ledger, {}, Answer("output-error", wrong)


def _given(function: Callable[..., Any], args: Any) -> tuple[Any, str]:
    try:
        given = json.loads(args or "{}") if isinstance(args, str) else args
        if not isinstance(given, dict):
            return given, "The arguments are no JSON object."
        inspect.signature(function).bind(**given)
    except (ValueError, TypeError) as error:
        return args, f"The arguments do not fit: {error}"
    return given, ""


def _chosen(decision: Decision, given: dict[str, Any]) -> dict[str, Any]:
    return decision.args if decision.edited and isinstance(decision.args, dict) else given


def _denied(decision: Decision) -> Answer:
    return Answer("output-denied", refusal(decision))


def _failed(ledger: Ledger, call_id: str, error: BaseException) -> Answer:
    ledger.failed(call_id, error)
    if aborted(error) or not isinstance(error, Exception):
        raise error
    return Answer("output-error", f"{type(error).__name__}: {error}")


def _returned(ledger: Ledger, call_id: str, value: Any) -> Answer:
    ledger.output(call_id, value)
    told = jsonable(value)
    return Answer("output-available", told if isinstance(told, str) else json.dumps(told), value)
