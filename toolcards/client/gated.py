"""`@gated`: a function that runs only when the gate allows the call, with the arguments that were allowed."""

from __future__ import annotations

import asyncio
import atexit
import functools
import inspect
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from .common.json_text import is_same_json
from .decisions.answers import Decision, Denied
from .gate_client import Toolcards
from .hooks import Attempt
from .stream import current
from .transport.background import EXIT_PATIENCE, finish, wait_for_unfinished
from .transport.threads import run_in_thread
from .values.annotations import build_schema, check_edit
from .values.failures import format_error, is_interruption
from .values.jsonable import shorten
from .values.outputs import BadOutput, find_output_trouble

__all__ = ["gated"]

P = ParamSpec("P")
R = TypeVar("R")
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def gated(
    cards: Toolcards | None = None,
    *,
    run: str = "",
    tool: str = "",
    seconds: float | None = None,
    output_schema: Any = None,
    agent: str = "",
    denial: Callable[[Denied], Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Ask before each call of the function, plain or async.

    Raise Denied if the call is denied.
    The arguments must be JSON by name. If a person edits them, the function runs with the edited ones. Calls belong to
    `run`, else to the run of the surrounding `with` block, else to a run of this process, which ends with it. A result
    that does not fit `output_schema` (a JSON Schema) raises BadOutput, which holds it.

    `agent` names the agent outside of a `with` block; the default is the program's name. `denial` gets the Denied of a
    denied call: the function returns its result, for example `str`, or raises it if it is an exception.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("@gated does not support generators: it reports the result of functions that return")
        guard = _Guard(
            cards or Toolcards(), function, run_name=run, tool=tool or function.__name__, seconds=seconds,
            output_schema=output_schema, agent=agent, denial=denial,
        )  # fmt: skip
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded_async(*args: Any, **kwargs: Any) -> Any:
                return await guard.acall(args, kwargs)

            return guarded_async  # type: ignore[return-value]

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            result: R = guard.call(args, kwargs)
            return result

        return guarded

    return decorate


class _Guard:
    """The gate around one function."""

    def __init__(
        self,
        cards: Toolcards,
        function: Any,
        *,
        run_name: str,
        tool: str,
        seconds: float | None,
        output_schema: Any,
        agent: str,
        denial: Callable[[Denied], Any] | None,
    ) -> None:
        self.cards, self.function, self.run_name, self.tool, self.seconds = cards, function, run_name, tool, seconds
        self.output_schema, self.agent, self.denial = output_schema, agent, denial
        self.signature, self.schema = inspect.signature(function), build_schema(function)

    def call(self, args: Any, kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except Denied as denied:
            return self._answer_denial(denied)

    async def acall(self, args: Any, kwargs: Any) -> Any:
        try:
            return await self._acall(args, kwargs)
        except Denied as denied:
            return self._answer_denial(denied)

    def _answer_denial(self, denial: Denied) -> Any:
        """Return what the function returns for a denied call, or raise."""
        answer: Any = denial if self.denial is None else self.denial(denial)
        if answer is denial:
            raise denial
        if isinstance(answer, BaseException):
            raise answer from denial
        return answer

    def _call(self, args: Any, kwargs: Any) -> Any:
        run, call_id, inputs, more = self._identify_call(args, kwargs)
        attempt = Attempt(run, call_id, self.tool)
        args_sent = attempt.before(inputs)
        try:
            decision = self.cards.ask(run, call_id, self.tool, args_sent, seconds=self.seconds, **more)
        except BaseException:  # interrupted while waiting
            attempt.settle("aborted")
            raise
        _require_allowed(decision, attempt)
        try:
            binding = self._bind_allowed(decision, inputs, args, kwargs)
            output = self.function(*binding.args, **binding.kwargs)
            if inspect.iscoroutine(output):  # a plain function that wraps an async one: it has not run yet
                return self._finish(output, run, call_id, attempt, decision)
            output = self._check_output(output)
        except BaseException as error:
            attempt.fail(error)
            self.cards.result(run, call_id, attempt=decision.attempt, **_format_outcome(error))
            raise
        attempt.succeed(output)
        self.cards.result(run, call_id, attempt=decision.attempt, output=shorten(output))
        return output

    async def _acall(self, args: Any, kwargs: Any) -> Any:
        run, call_id, inputs, more = self._identify_call(args, kwargs)
        attempt = Attempt(run, call_id, self.tool)
        try:
            args_sent = await run_in_thread(attempt.before, inputs)
            decision = await self.cards.aask(run, call_id, self.tool, args_sent, seconds=self.seconds, **more)
        except BaseException:  # canceled while waiting
            attempt.settle("aborted")
            raise
        _require_allowed(decision, attempt)

        async def run_function() -> Any:
            binding = self._bind_allowed(decision, inputs, args, kwargs)
            return await self.function(*binding.args, **binding.kwargs)

        return await self._finish(run_function(), run, call_id, attempt, decision)

    async def _finish(self, work: Awaitable[Any], run: str, call_id: str, attempt: Attempt, decision: Decision) -> Any:
        """Run the rest of the function, and report its result."""
        try:
            output = self._check_output(await work)
        except BaseException as error:
            attempt.fail(error)
            report = self._start_report(run, call_id, decision, **_format_outcome(error))
            if not is_interruption(error):  # a canceled task does not wait
                await asyncio.wrap_future(report)
            raise
        attempt.succeed(output)
        await asyncio.wrap_future(self._start_report(run, call_id, decision, output=shorten(output)))
        return output

    def _start_report(self, run: str, call_id: str, decision: Decision, **outcome: Any) -> Future[bool]:
        return finish(partial(self.cards.result, run, call_id, attempt=decision.attempt, **outcome))

    def _check_output(self, output: Any) -> Any:
        """Return the output; raises BadOutput if it does not fit its schema."""
        why = find_output_trouble(output, self.output_schema) if self.output_schema is not None else ""
        if why:
            raise BadOutput(why, output)
        return output

    def _identify_call(self, args: Any, kwargs: Any) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
        """Return the run's name, the call's id and arguments, and further fields of the question."""
        surrounding = current()
        run, agent = self.run_name, self.agent
        if not run and surrounding is not None:
            run = surrounding.name
        elif not run:
            run, agent = _process_run.use(self.cards), agent or _get_program_name()
        more = {"agent": [agent]} if agent else {}
        return run, f"call-{uuid.uuid4().hex[:12]}", _name_arguments(self.signature, args, kwargs), more

    def _bind_allowed(self, decision: Decision, inputs: Any, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """Return the passed arguments, or the allowed ones if they differ; raises TypeError if those do not fit."""
        original = json.loads(json.dumps(inputs))
        if is_same_json(decision.args, original):
            return self.signature.bind(*args, **kwargs)
        check_edit(self.schema, original, decision.args)
        return _bind_edited(self.signature, decision.args)


class _ProcessRun:
    """The run of the calls outside any other: one per process, ended when the process ends."""

    def __init__(self) -> None:
        self._process, self._name, self._servers = 0, "", dict[tuple[str, str], Toolcards]()

    def use(self, cards: Toolcards) -> str:
        """Return the run's name.

        A forked child gets its own run.
        """
        if self._process != os.getpid():
            self._process, self._name, self._servers = os.getpid(), f"functions-{uuid.uuid4().hex[:8]}", {}
        self._servers[cards.url, cards.key] = cards
        return self._name

    def end(self) -> None:
        """Report the end of the run, if this process has one."""
        if self._process == os.getpid():
            wait_for_unfinished()  # results, before the end of their run
            for cards in self._servers.values():
                cards.end(self._name, seconds=EXIT_PATIENCE)


_process_run = _ProcessRun()
atexit.register(_process_run.end)


def _get_program_name() -> str:
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"


def _require_allowed(decision: Decision, attempt: Attempt) -> None:
    if not decision.allowed:
        attempt.deny(decision.code, decision.text)
        raise Denied(decision)


def _format_outcome(error: BaseException) -> dict[str, Any]:
    return {"outcome": "aborted"} if is_interruption(error) else {"error": format_error(error)}


def _name_arguments(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments as one JSON object: `*args` as a list, `**kwargs` merged."""
    binding = signature.bind(*args, **kwargs)
    binding.apply_defaults()
    arguments: dict[str, Any] = {}
    for name, value in binding.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            if hidden := sorted(arguments.keys() & value.keys()):  # of a positional-only parameter
                raise TypeError(f"two arguments are named {hidden[0]!r}, so the call cannot be shown")
            arguments |= value
        else:
            arguments[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return arguments


def _bind_edited(signature: inspect.Signature, edited_args: Any) -> inspect.BoundArguments:
    """Return edited arguments bound to the signature; raises TypeError if they do not fit."""
    if not isinstance(edited_args, dict):
        raise TypeError("the edited arguments are not an object")
    remaining = dict(edited_args)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            more = remaining.pop(name, [])
            if not isinstance(more, list):
                raise TypeError(f"the edited argument {name!r} is not a list")
            positional += more
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY and name in remaining:
            keywords[name] = remaining.pop(name)
        elif parameter.kind in _BY_POSITION:
            if name not in remaining and parameter.default is parameter.empty:
                raise TypeError(f"the edited arguments have no {name!r}")
            positional.append(remaining.pop(name, parameter.default))  # a gap would move the arguments after it
    return signature.bind(*positional, **keywords, **remaining)
