"""The tools that the server offers, each with the digest that pins its definition."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.mcp.messages import Message, get_object, get_text

# What a model reads about a tool. Icons and `_meta` may change without changing what it does.
PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_TOOLS = 5_000


class ToolList:
    """The definitions as the client last saw them, from the pages of `tools/list`. From any thread.

    What the server lists for the gateway itself counts for tools that the client never saw. For the others it is
    evidence only: a server may show the client one list and the gateway another one.
    """

    def __init__(self) -> None:
        self._own_definitions: dict[str, Message] = {}  # as the gateway's own requests got them
        self._definitions: dict[str, Message] = {}
        self._listed: set[str] = set()  # names on the pages so far of a list that has more
        self._lock = threading.Lock()
        self.is_stale = True  # the server says that its list has changed, or it was never read to its end

    def add_page(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Take one page: `params` of the request, `result` of the response.

        A response without a list, such as an error, changes nothing.
        """
        tools = result.get("tools")
        if not isinstance(tools, list):
            return
        with self._lock:
            if not params.get("cursor"):
                self._listed = set()
            for tool in tools:
                name = get_text(tool, "name")
                if name and (name in self._definitions or len(self._definitions) < MAX_TOOLS):
                    self._definitions[name] = tool
                    self._own_definitions.pop(name, None)  # older
                    self._listed.add(name)
            if not result.get("nextCursor"):
                self._definitions = {name: self._definitions[name] for name in self._listed}
                self.is_stale = False

    def add_own_page(self, result: Mapping[str, Any]) -> None:
        """Take one page of a list for the gateway itself."""
        tools = result.get("tools")
        if not isinstance(tools, list):
            return
        with self._lock:
            for tool in tools:
                name = get_text(tool, "name")
                if name and (name in self._own_definitions or len(self._own_definitions) < MAX_TOOLS):
                    self._own_definitions[name] = tool
            if not result.get("nextCursor"):
                self.is_stale = False

    def find(self, name: str) -> Message | None:
        """Return the tool's definition, None if the server does not list it."""
        with self._lock:
            return self._definitions.get(name, self._own_definitions.get(name))

    def find_other(self, name: str) -> Message | None:
        """Return the gateway's definition if the client saw another one."""
        with self._lock:
            own_definition = self._own_definitions.get(name)
            return None if own_definition == self._definitions.get(name, own_definition) else own_definition


def identify(
    name: str, source: str, definition: Message | None, own_definition: Message | None = None
) -> dict[str, str]:
    """Return the tool with its server and the digest of its definition.

    `own_definition`: what the gateway got if the client saw another one, so that the tool has changed.

    A server that changes a tool's description, schema or annotations changes the digest: the gate then treats it as a
    changed tool until an admin accepts it.
    """
    tool = {"name": name, "source": source}
    if definition is None:
        return tool
    title = get_text(definition, "title") or get_text(get_object(definition, "annotations"), "title")
    try:
        fields = {field: definition[field] for field in PINNED if field in definition}
        tool["schema_sha256"] = digest(
            fields if own_definition is None else {"client": fields, "gateway": own_definition}
        )
    except NotCanonical:  # a definition that has no canonical form cannot be recognized again
        return tool
    return tool | ({"title": title} if title else {})
