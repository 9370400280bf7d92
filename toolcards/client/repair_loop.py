"""A call that cannot run as written, on the agent's side: repaired where there is one way only, or written once more.

The same code mends on the server (`common.repair`), which checks again whatever comes of it. A model may be
asked once more: for 10 seconds at most, and only what failed may come out changed: places of an input, a tool's name.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .answers import Decision, make_denial
from .common import input_repair
from .common.input_repair import Offers, Repair, Trouble
from .common.json_text import same
from .common.schema_errors import Finding
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

SECONDS = 10.0  # that a model, asked once more, may take
REWRITTEN = "written once more"
Reask = Callable[[Decision], Any]
_check = partial(input_repair.check, findings=find_errors)
_repair = partial(input_repair.repair, findings=find_errors)


def find_usable_call(
    tool: str, args: Any, offers: Offers, call_id: str, reask: Reask | None = None
) -> tuple[Repair | None, Trouble | None]:
    """Return what stands in place of the call, and what is wrong with it where nothing can; both None: it is fine."""
    trouble = _check(tool, args, offers)
    if trouble is None:
        return None, None
    repaired = _repair(tool, args, offers)
    if repaired is None and reask is not None and trouble.code == "invalid_input":
        again = rewrite_arguments(reask, make_refusal(trouble, offers, call_id), args, trouble.findings)
        if again is not None and _check(tool, again, offers) is None:
            repaired = Repair(tool, again, REWRITTEN)
    return repaired, None if repaired else trouble


def find_trouble(tool: str, args: Any, offers: Offers) -> Trouble | None:
    """Return what keeps the tool from taking these arguments as they are, None where it takes them."""
    return _check(tool, args, offers)


def make_refusal(trouble: Trouble, offers: Offers, call_id: str) -> Decision:
    """Return the no for a call that nothing can be made of, in words for the model."""
    told = [
        {
            "pointer": found.pointer, "keyword": found.keyword, "message": found.message,
            "unexpected": found.unexpected, "missing": found.missing,
        }
        for found in trouble.findings
    ]  # fmt: skip
    said = make_denial(trouble.message(offers), call_id, trouble.code)
    return Decision(**{**vars(said), "raw": {"places": told}})


def get_schema_errors(decision: Decision) -> list[Finding]:
    """Return where the input did not fit, as the decision tells it."""
    told = decision.raw.get("places")
    return [
        Finding(
            str(one.get("pointer", "")), str(one.get("keyword", "")), str(one.get("message", "")),
            tuple(map(str, one.get("unexpected") or ())), tuple(map(str, one.get("missing") or ())),
        )
        for one in (told if isinstance(told, list) else ())
        if isinstance(one, Mapping)
    ]  # fmt: skip


def rewrite_arguments(reask: Reask, refused: Decision, args: Any, found: Iterable[Finding]) -> Any | None:
    """Return the arguments as they were written once more; None where that failed, or changed what had not failed."""
    try:
        again = json.loads(json.dumps(_call_reask(reask, refused), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    if again is None or same(again, args) or not input_repair.fits(args, again, found):
        return None
    return again


def choose_other_tool(reask: Reask, refused: Decision, args: Any, offers: Offers) -> str:
    """Return the tool that was chosen in place of one that does not exist; "" where none was that may be.

    Only among tools that read, and only one that takes the arguments as they are.
    """
    readers = {name: offer for name, offer in offers.items() if offer.kind == "read"}
    if not readers:
        return ""
    told = Decision(**{**vars(refused), "raw": {**refused.raw, "tools": list(readers)}})
    name = _call_reask(reask, told)
    return name if isinstance(name, str) and _check(name, args, readers) is None else ""


def _call_reask(reask: Reask, refused: Decision) -> Any:
    """What the callback says in its time; None where it says nothing, or fails."""
    box: list[Any] = []

    def ask() -> None:
        try:
            box.append(reask(refused))
        except BaseException:  # the first error is the one that counts
            box.append(None)

    thread = threading.Thread(target=ask, name="toolcards reask", daemon=True)
    thread.start()
    thread.join(SECONDS)
    return box[0] if box else None
