"""Repairs a call that cannot run as written, in the agent: by the only possible repair, or by asking the model again.

The server uses the same code (`common.input_repair`) and checks the result again. The model has 10 seconds to answer,
and may change only what failed: places of the input, or the tool's name.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..common import input_repair
from ..common.input_fixes import SchemaError
from ..common.input_repair import Offers, Repair, Trouble
from ..common.json_text import is_same_json
from ..decisions.answers import Decision, make_denial
from .schema import find_errors

__all__ = [
    "Reask",
    "choose_other_tool",
    "find_trouble",
    "find_usable_call",
    "get_schema_errors",
    "make_refusal",
    "rewrite_arguments",
]

REASK_SECONDS = 10.0  # for the model to answer
REASK_METHOD = "written once more"
Reask = Callable[[Decision], Any]
_check = partial(input_repair.check, findings=find_errors)
_repair = partial(input_repair.repair, findings=find_errors)


def find_usable_call(
    tool: str, args: Any, offers: Offers, call_id: str, reask: Reask | None = None
) -> tuple[Repair | None, Trouble | None]:
    """Return the repair of the call, or its trouble.

    Both are None for a valid call.
    """
    trouble = _check(tool, args, offers)
    if trouble is None:
        return None, None
    replacement = _repair(tool, args, offers)
    if replacement is None and reask is not None and trouble.code == "invalid_input":
        new_args = rewrite_arguments(reask, make_refusal(trouble, offers, call_id), args, trouble.findings)
        if new_args is not None and _check(tool, new_args, offers) is None:
            replacement = Repair(tool, new_args, REASK_METHOD)
    return replacement, None if replacement else trouble


def find_trouble(tool: str, args: Any, offers: Offers) -> Trouble | None:
    """Return why the tool cannot take these arguments, None if it can."""
    return _check(tool, args, offers)


def make_refusal(trouble: Trouble, offers: Offers, call_id: str) -> Decision:
    """Return the denial of a call that cannot be repaired.

    Its text is for the model.
    """
    places = [
        {
            "pointer": error.pointer, "keyword": error.keyword, "message": error.message,
            "unexpected": error.unexpected, "missing": error.missing,
        }
        for error in trouble.findings
    ]  # fmt: skip
    denial = make_denial(trouble.message(offers), call_id, trouble.code)
    return Decision(**{**vars(denial), "raw": {"places": places}})


def get_schema_errors(decision: Decision) -> list[SchemaError]:
    """Return the schema errors that the decision carries."""
    places = decision.raw.get("places")
    return [
        SchemaError(
            str(place.get("pointer", "")), str(place.get("keyword", "")), str(place.get("message", "")),
            tuple(map(str, place.get("unexpected") or ())), tuple(map(str, place.get("missing") or ())),
        )
        for place in (places if isinstance(places, list) else ())
        if isinstance(place, Mapping)
    ]  # fmt: skip


def rewrite_arguments(reask: Reask, denial: Decision, args: Any, errors: Iterable[SchemaError]) -> Any | None:
    """Return the rewritten arguments.

    None if that failed, or changed a valid place.
    """
    try:
        new_args = json.loads(json.dumps(_call_reask(reask, denial), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    if new_args is None or is_same_json(new_args, args) or not input_repair.fits(args, new_args, errors):
        return None
    return new_args


def choose_other_tool(reask: Reask, denial: Decision, args: Any, offers: Offers) -> str:
    """Return the tool chosen instead of a missing one, or "".

    Only a tool that reads can be chosen, and only one that takes the arguments unchanged.
    """
    readers = {name: offer for name, offer in offers.items() if offer.kind == "read"}
    if not readers:
        return ""
    question = Decision(**{**vars(denial), "raw": {**denial.raw, "tools": list(readers)}})
    name = _call_reask(reask, question)
    return name if isinstance(name, str) and _check(name, args, readers) is None else ""


def _call_reask(reask: Reask, denial: Decision) -> Any:
    """Return the callback's answer; None if it is late or fails."""
    box: list[Any] = []

    def ask() -> None:
        try:
            box.append(reask(denial))
        except BaseException:
            box.append(None)

    thread = threading.Thread(target=ask, name="toolcards reask", daemon=True)
    thread.start()
    thread.join(REASK_SECONDS)
    return box[0] if box else None
