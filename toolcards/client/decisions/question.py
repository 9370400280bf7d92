"""One question to the gate, and the digests that bind an answer to it.

An answer counts only for the submitted call: same run, call id, attempt, tool and arguments. `args_sha256`
is the digest of the arguments alone; `call_sha256` that of arguments, tool, server and schema together. Both are
lower-case hex SHA-256 over the RFC 8785 form.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..common.canonical_json import call_digest, digest
from ..common.json_text import build_object

__all__ = ["CallRequest", "SubmittedCalls", "Tool"]

MAX_CALLS = 10_000  # calls whose identity a client keeps


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the gate evaluates it: name, MCP server, digest of its input schema."""

    name: str
    source: str = ""
    schema_sha256: str = ""

    @classmethod
    def read(cls, tool: str | Mapping[str, Any]) -> Tool:
        """Parse a tool: a name, or an object with `name`."""
        if isinstance(tool, str):
            return cls(tool)
        return cls(*(str(tool.get(field) or "") for field in ("name", "source", "schema_sha256")))


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One question: may this call run?

    `args` is the JSON value exactly as it is sent. `offered_names` are the tools that may replace it
    if the server repairs the name; if empty, no other tool may.
    """

    run: str
    call_id: str
    tool: Tool
    args: Any
    args_sha256: str
    attempt: int = 1
    offered_names: frozenset[str] = frozenset()

    @classmethod
    def about(
        cls,
        run: str,
        call_id: str,
        tool: str | Mapping[str, Any],
        args: Any,
        *,
        attempt: int = 1,
        offered_names: Iterable[str] = (),
    ) -> CallRequest:
        """Return the question.

        Raises TypeError or ValueError if the arguments or the tool have no canonical form.
        """
        value = json.loads(json.dumps(args, allow_nan=False), object_pairs_hook=build_object)
        request = cls(run, call_id, Tool.read(tool), value, digest(value), attempt, frozenset(offered_names))
        request.digest_of({}, request.tool)  # raises for a name that no answer could be compared with
        return request

    @property
    def call_sha256(self) -> str:
        """The digest of the whole call, constant for one (run, call_id, attempt)."""
        return self.digest_of(self.args, self.tool)

    def digest_of(self, args: Any, tool: Tool) -> str:
        """Return `call_sha256` for edited arguments or a repaired tool."""
        return call_digest(args, name=tool.name, source=tool.source, schema_sha256=tool.schema_sha256)


class SubmittedCalls:
    """The first call submitted for each (run, call id, attempt); a different call under that id is refused.

    A bounded memory of one client, of the calls submitted last; the server enforces the same rule permanently.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._identities: OrderedDict[tuple[str, str, int], str] = OrderedDict()
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()

    def admit(self, question: CallRequest) -> bool:
        """Store the request.

        Return False if another call was submitted under its id.
        """
        key = (question.run, question.call_id, question.attempt)
        with self._lock:
            first = self._identities.setdefault(key, question.call_sha256)
            self._identities.move_to_end(key)
            if first == question.call_sha256:
                self._latest[key[:2]] = question.attempt
                self._latest.move_to_end(key[:2])
            for memory in (self._identities, self._latest):
                if len(memory) > MAX_CALLS:
                    memory.popitem(last=False)
        return first == question.call_sha256

    def latest(self, run: str, call_id: str) -> int:
        """Return the last submitted attempt, 1 if there was none."""
        with self._lock:
            return self._latest.get((run, call_id), 1)
