"""Register of the tools that each source announced, to detect tools that change under the same name.

The first schema of a name is accepted. Every later one counts as changed until an admin accepts it. Announced schemas
are compared with announced schemas, digests from requests with digests from requests, servers with servers.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable
from typing import Any

from django.db import transaction

from toolcards.audit.trail import Act, write_acts
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.core.input_repair import Offer
from toolcards.models import SeenTool, prepared_selects
from toolcards.models.prepared_selects import PreparedSelect

MAX_SCHEMAS = 2_000  # rows per source; a schema beyond them counts as changed
ANNOUNCED, NAMED_BY_AGENT, SERVER = "announced", "asked", "server"  # values of SeenTool.how
NO_SERVER = "no server"  # marks tools without a server; a server's name has no blank
_PLAIN = re.compile(r"[!-~]{1,63}")


_SELECT_TOOLS = PreparedSelect(SeenTool, "WHERE source_id = %s AND name = %s ORDER BY id")


def digest_schema(schema: Any) -> str:
    """Return the digest of a tool's schema, "" for none."""
    try:
        return digest(schema) if schema else ""
    except NotCanonical:
        return ""


def check_tool(
    source_id: int, name: str, presented_schemas: Iterable[tuple[str, str]], server: str | None = None
) -> bool:
    """Return whether the tool has an unaccepted schema or another server.

    New schemas and servers are registered.

    `presented_schemas`: pairs of ANNOUNCED or ASKED and a schema digest, "" for none. The same name from two servers is
    two tools: what a rule allows for the first does not hold for the second.
    """
    digests = [(how, sha256[:64]) for how, sha256 in presented_schemas if sha256]
    key = source_id, name[:300]
    rows = prepared_selects.recall((check_tool, *key), lambda: _SELECT_TOOLS.fetch_all(*key))
    schemas = [row for row in rows if row.how != SERVER]
    # A list, not a generator: every digest must be registered.
    changes = [_is_changed(source_id, name, how, sha256, schemas) for how, sha256 in digests]
    if not digests and schemas:
        changes.append(schemas[-1].accepted_at is None)
    if server is not None:
        changes.append(_is_changed(source_id, name, SERVER, _normalize_server(server), rows))
    return any(changes)


def _normalize_server(server: str) -> str:
    """Return the server's name if it is short and plain, else its digest."""
    if not server or _PLAIN.fullmatch(server):
        return server or NO_SERVER
    return hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()


def _is_changed(source_id: int, name: str, how: str, sha256: str, rows: list[SeenTool]) -> bool:
    comparable = [row for row in rows if row.how == how]
    for row in comparable:
        if row.schema_sha256 == sha256:
            return row.accepted_at is None
    if len(rows) < MAX_SCHEMAS and SeenTool.objects.filter(source=source_id).count() < MAX_SCHEMAS:
        _register(source_id, name, how, sha256, first=not comparable)
    return bool(comparable)


def _register(source_id: int, name: str, how: str, sha256: str, *, first: bool) -> None:
    now = time.time()
    prepared_selects.forget()
    _, is_new = SeenTool.objects.get_or_create(
        source_id=source_id, name=name[:300], how=how, schema_sha256=sha256,
        defaults={"first_seen": now, "accepted_at": now if first else None},
    )  # fmt: skip
    if is_new and not first:
        write_acts(Act("tool.changed", "gate", detail={"tool": name[:300], "schema_sha256": sha256}))


def register_announced_tools(source_id: int, tools: Iterable[Any]) -> None:
    """Register the tools that a run announced (at most 500)."""
    offers = [Offer.parse(tool) for tool in list(tools)[:500] if isinstance(tool, dict)]
    digests = [
        (offer.name.replace("\0", "\ufffd"), digest_schema(offer.schema)) for offer in offers if offer is not None
    ]
    for name, sha256 in sorted(digests):  # two servers that add the same tools wait for each other, in one order
        if sha256:
            check_tool(source_id, name, [(ANNOUNCED, sha256)])


def is_tool_announced(name: str) -> bool:
    """Return whether any source has announced a tool of this name."""
    return SeenTool.objects.filter(name=name[:300], how=ANNOUNCED).exists()


def accept_tool(pk: int, actor: str) -> SeenTool | None:
    """Accept the changed tool; return its row, None if missing."""
    with transaction.atomic():
        row = SeenTool.objects.select_for_update(of=("self",)).select_related("source").filter(pk=pk).first()
        if row is not None and row.accepted_at is None:
            row.accepted_at, row.accepted_by = time.time(), actor
            row.save(update_fields=["accepted_at", "accepted_by"])
            detail = {"source": row.source.name, "tool": row.name, "schema_sha256": row.schema_sha256}
            write_acts(Act("tool.accepted", "human", actor, detail=detail))
    return row
