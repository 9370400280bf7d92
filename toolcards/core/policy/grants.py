"""Standing approvals: a grant satisfies one ask rule for some calls and never overrides a deny."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from toolcards.client.common.canonical_json import NotCanonical, digest, escape
from toolcards.client.common.tool_results import is_exact
from toolcards.core.policy.evaluation_context import EvaluationContext, OverBudget
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import Clause
from toolcards.core.policy.truth import TRUE

_DIGEST = "sha256:"


@dataclass(frozen=True)
class PolicyGrant:
    """A standing approval for one ask rule (`rule`: its id, "default" or "unknown_tool").

    It covers exactly this tool, of this server and with this schema, and these exact arguments (`digest`), or those
    that `pattern` (the conditions of a rule's `args`, compiled with `document.compile_pattern`) certainly matches, or
    `any_input`. `agent` comes from `make_agent_scope`. Empty `run`, `agent`: any.
    """

    rule: str
    rule_sha256: str
    tool: str
    digest: str = ""
    pattern: Clause | None = None
    any_input: bool = False
    server: str = ""
    schema: str = ""
    run: str = ""
    agent: str = ""
    expires_at: float = 0.0
    id: str = ""


def find_grant(rule: str, sha256: str, request: PolicyRequest, grants: tuple[PolicyGrant, ...]) -> PolicyGrant | None:
    """Return a grant for this rule and content that covers the call.

    A changed tool always requires a new approval.
    """
    if rule == "changed_tool" or not grants:
        return None
    grants_for_rule = (grant for grant in grants if grant.rule == rule and grant.rule_sha256 == sha256)
    return next((grant for grant in grants_for_rule if is_covered(grant, request)), None)


def is_covered(grant: PolicyGrant, request: PolicyRequest) -> bool:
    """Return whether the grant covers this call."""
    is_in_scope = (
        (grant.tool, grant.server, grant.schema) == (request.tool, request.names.server, request.schema)
        and (not grant.run or grant.run == request.run)
        and (not grant.agent or grant.agent == make_agent_scope(request.agent_path))
        and (not grant.expires_at or 0 < request.now < grant.expires_at)
    )
    if not is_in_scope or not is_exact(request.input):
        return False
    if grant.any_input:
        return True
    if not request.has_input:
        return False
    if grant.digest:
        try:
            return digest(request.input) == grant.digest
        except NotCanonical:
            return False
    return grant.pattern is not None and _matches_pattern(grant.pattern, request)


def _matches_pattern(pattern: Clause, request: PolicyRequest) -> bool:
    try:
        return pattern.check(EvaluationContext(request), None) is TRUE
    except OverBudget:
        return False


def make_agent_scope(path: tuple[str, ...]) -> str:
    """Return the agent and its callers as one text.

    It has up to 200 characters, and is never empty, which would be any agent.
    """
    text = "/".join(map(escape, path))
    is_own_digest = text.startswith(_DIGEST)  # an agent may name itself like the digest of another one
    if 0 < len(text) <= 200 and text.isprintable() and not is_own_digest:
        return text
    return _DIGEST + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
