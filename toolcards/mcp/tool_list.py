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
    """The definitions as the client last saw them, from the pages of `tools/list`. From any thread."""

    def __init__(self) -> None:
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
                    self._listed.add(name)
            if not result.get("nextCursor"):
                self._definitions = {name: self._definitions[name] for name in self._listed}
                self.is_stale = False

    def find(self, name: str) -> Message | None:
        """Return the tool's definition, None if the server does not list it."""
        with self._lock:
            return self._definitions.get(name)


def identify(name: str, source: str, definition: Message | None) -> dict[str, str]:
    """Return the tool with its server and the digest of its definition.

    A server that changes a tool's description, schema or annotations changes the digest: the gate then treats it as a
    changed tool until an admin accepts it.
    """
    tool = {"name": name, "source": source}
    if definition is None:
        return tool
    title = get_text(definition, "title") or get_text(get_object(definition, "annotations"), "title")
    try:
        tool["schema_sha256"] = digest({field: definition[field] for field in PINNED if field in definition})
    except NotCanonical:  # a definition that has no canonical form cannot be recognized again
        return tool
    return tool | ({"title": title} if title else {})
