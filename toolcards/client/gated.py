"""`@gated`: a function that runs only when the gate allows the call, with the arguments that were allowed."""

from __future__ import annotations

import functools
import inspect
import json
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .answers import Decision, Denied
from .common.json_text import same
from .failures import format_error, is_interruption
from .gate_client import Toolcards
from .hooks import Attempt
from .jsonable import shorten
from .outputs import BadOutput, find_output_trouble
from .stream import current
from .threads import run_in_thread

__all__ = ["gated"]

P = ParamSpec("P")
R = TypeVar("R")
_run = f"functions-{uuid.uuid4().hex[:8]}"  # the run of calls that belong to none


def gated(
    cards: Toolcards | None = None,
    *,
    run: str = "",
    tool: str = "",
    seconds: float | None = None,
    output_schema: Any = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Ask before each call of the function, plain or async; raise Denied where the answer is no.

    The call's arguments, by name, must be JSON. Where a person edited them the function runs with the edited ones.
    Calls belong to `run`, else to the run whose `with` block they happen in, else to one of this process.
    A result that does not fit `output_schema` (a JSON Schema), where one is given, raises BadOutput, which has it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("@gated is for functions that return; a generator's work has no end to tell of")
        guard = _Guard(cards or Toolcards(), function, run, tool or function.__name__, seconds, output_schema)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waits(*args: Any, **kwargs: Any) -> Any:
                return await guard.acall(args, kwargs)

            return waits  # type: ignore[return-value]

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            result: R = guard.call(args, kwargs)
            return result

        return guarded

    return decorate


class _Guard:
    """One gated function."""

    def __init__(
        self, cards: Toolcards, function: Any, run: str, tool: str, seconds: float | None, output_schema: Any
    ) -> None:
        self.cards, self.function, self.named, self.tool, self.seconds = cards, function, run, tool, seconds
        self.output_schema = output_schema
        self.signature = inspect.signature(function)

    def call(self, args: Any, kwargs: Any) -> Any:
        run, call_id, given = self._question(args, kwargs)
        heard = Attempt(run, call_id, self.tool)
        said = heard.before(given)
        try:
            allowed = self.cards.ask(run, call_id, self.tool, said, seconds=self.seconds)
        except BaseException:  # stopped while it waited
            heard.settled("aborted")
            raise
        _unless_denied(allowed, heard)
        try:
            bound = self._bound(allowed, given, args, kwargs)
            output = self._fitting(self.function(*bound.args, **bound.kwargs))
        except BaseException as error:
            heard.failed(error)
            self.cards.result(run, call_id, attempt=allowed.attempt, **_outcome(error))
            raise
        heard.ok(output)
        self.cards.result(run, call_id, attempt=allowed.attempt, output=shorten(output))
        return output

    async def acall(self, args: Any, kwargs: Any) -> Any:
        run, call_id, given = self._question(args, kwargs)
        heard = Attempt(run, call_id, self.tool)
        said = await run_in_thread(heard.before, given)
        try:
            allowed = await self.cards.aask(run, call_id, self.tool, said, seconds=self.seconds)
        except BaseException:  # cancelled while it waited
            heard.settled("aborted")
            raise
        _unless_denied(allowed, heard)
        try:
            bound = self._bound(allowed, given, args, kwargs)
            output = self._fitting(await self.function(*bound.args, **bound.kwargs))
        except BaseException as error:
            heard.failed(error)
            telling = run_in_thread(self.cards.result, run, call_id, attempt=allowed.attempt, **_outcome(error))
            if not is_interruption(error):  # a cancelled task does not wait any more
                await telling
            raise
        heard.ok(output)
        await run_in_thread(self.cards.result, run, call_id, attempt=allowed.attempt, output=shorten(output))
        return output

    def _fitting(self, output: Any) -> Any:
        """The result, if it is what was declared."""
        why = find_output_trouble(output, self.output_schema) if self.output_schema is not None else ""
        if why:
            raise BadOutput(why, output)
        return output

    def _question(self, args: Any, kwargs: Any) -> tuple[str, str, dict[str, Any]]:
        here = current()
        run = self.named or (here.name if here is not None else _run)
        return run, f"call-{uuid.uuid4().hex[:12]}", _by_name(self.signature, args, kwargs)

    def _bound(self, allowed: Decision, given: Any, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """The arguments as they were passed, unless others were allowed; raises TypeError where those do not fit."""
        if same(allowed.args, json.loads(json.dumps(given))):
            return self.signature.bind(*args, **kwargs)
        return _bound(self.signature, allowed.args)


def _unless_denied(decision: Decision, heard: Attempt) -> None:
    if not decision.allowed:
        heard.denied(decision.code, decision.text)
        raise Denied(decision)


def _outcome(error: BaseException) -> dict[str, Any]:
    return {"outcome": "aborted"} if is_interruption(error) else {"error": format_error(error)}


def _by_name(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments as one JSON object; `*args` as a list, `**kwargs` beside the others."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    said: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            said |= value
        else:
            said[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return said


def _bound(signature: inspect.Signature, said: Any) -> inspect.BoundArguments:
    """Return edited arguments as the function takes them; raises TypeError where they do not fit."""
    if not isinstance(said, dict):
        raise TypeError("the edited arguments are no object")
    left = dict(said)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or name not in left:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += left.pop(name)
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = left.pop(name)
        else:
            positional.append(left.pop(name))
    return signature.bind(*positional, **named, **left)
