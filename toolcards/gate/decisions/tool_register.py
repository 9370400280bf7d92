"""The tools that each source has shown: a name whose schema becomes another one is looked at by a person first.

The first schema of a name is taken as it comes; every later one is `changed` until an admin accepts it. Schemas
that runs announce are compared with announced ones, digests that agents send with such digests. So is the server or
package that the tool comes from.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable
from typing import Any

from django.db import transaction

from toolcards.audit.trail import Act, write
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.core.schemas.input_repair import Offer
from toolcards.models import SeenTool

MAX_SCHEMAS = 2_000  # schemas kept per source; whatever is not kept counts as changed
ANNOUNCED, ASKED, SERVER = "announced", "asked", "server"
NO_SERVER = "no server"  # no server is kept under this name: it has a blank
_PLAIN = re.compile(r"[!-~]{1,63}")


def digest_schema(schema: Any) -> str:
    """Return the digest of a tool's schema, "" for none."""
    try:
        return digest(schema) if schema else ""
    except NotCanonical:
        return ""


def check_tool(source_id: int, name: str, presented: Iterable[tuple[str, str]], server: str | None = None) -> bool:
    """Return whether the tool shows a schema that nobody has accepted, or comes from another `server` than before.

    New names and schemas are remembered. One name from two servers is never one tool: what a rule allows of the first
    is asked about of the other.
    """
    shown = [(how, sha256[:64]) for how, sha256 in presented if sha256]
    seen = list(SeenTool.objects.filter(source=source_id, name=name[:300]).order_by("id"))
    rows = [row for row in seen if row.how != SERVER]
    # All are looked at: each is remembered.
    differs = [_is_new_schema(source_id, name, how, sha256, rows) for how, sha256 in shown]
    if not shown and rows:
        differs.append(rows[-1].accepted_at is None)
    if server is not None:
        differs.append(_is_new_schema(source_id, name, SERVER, _normalize_server(server), seen))
    return any(differs)


def _normalize_server(server: str) -> str:
    """The server's name as it is kept: short and plain, else its digest."""
    if not server or _PLAIN.fullmatch(server):
        return server or NO_SERVER
    return hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()


def _is_new_schema(source_id: int, name: str, how: str, sha256: str, rows: list[SeenTool]) -> bool:
    comparable = [row for row in rows if row.how == how]
    known = next((row for row in comparable if row.schema_sha256 == sha256), None)
    if known is not None:
        return known.accepted_at is None
    if len(rows) < MAX_SCHEMAS and SeenTool.objects.filter(source=source_id).count() < MAX_SCHEMAS:
        _remember(source_id, name, how, sha256, first=not comparable)
    return bool(comparable)


def _remember(source_id: int, name: str, how: str, sha256: str, *, first: bool) -> None:
    now = time.time()
    _, made = SeenTool.objects.get_or_create(
        source_id=source_id, name=name[:300], how=how, schema_sha256=sha256,
        defaults={"first_seen": now, "accepted_at": now if first else None},
    )  # fmt: skip
    if made and not first:
        write(Act("tool.changed", "gate", detail={"tool": name[:300], "schema_sha256": sha256}))


def register_announced_tools(source_id: int, tools: Iterable[Any]) -> None:
    """Remember the tools that a run announced."""
    for said in list(tools)[:500]:
        offer = Offer.of(said) if isinstance(said, dict) else None
        if offer is not None and (sha256 := digest_schema(offer.schema)):
            check_tool(source_id, offer.name.replace("\0", "\ufffd"), [(ANNOUNCED, sha256)])


def accept_tool(pk: int, by: str) -> SeenTool | None:
    """Accept the tool as it is now; None if there is no such tool."""
    with transaction.atomic():
        row = SeenTool.objects.select_for_update(of=("self",)).select_related("source").filter(pk=pk).first()
        if row is not None and row.accepted_at is None:
            row.accepted_at, row.accepted_by = time.time(), by
            row.save(update_fields=["accepted_at", "accepted_by"])
            detail = {"source": row.source.name, "tool": row.name, "schema_sha256": row.schema_sha256}
            write(Act("tool.accepted", "human", by, detail=detail))
    return row
