"""Acts of the audit trail as sentences: "admin approved Push main to origin". Codenames stay in the details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.cards.labels import describe_actor
from toolcards.audit.rows import AuditRow
from toolcards.core.calls.facts import Actor

# Braces are names of details, `{who}` the actor, and `{call}` the call as a sentence.
_SENTENCES = {
    "approval.approved": "{who} approved {call}",
    "approval.denied": "{who} denied {call}",
    "approval.expired": "No one answered in time: {call}",
    "approval.cancelled": "{call} no longer waits for an answer",
    "approval.superseded": "{call} is asked about again with another input",
    "approval.revoked": "The approval of {call} was revoked",
    "approval.escalated": "{call} was escalated to {to}",
    "claim": "{who} took the permission for {call}",
    "vote": "{who} answered {call}: {decision}",
    "vote.undone": "{who} undid the approval of {call}",
    "permit.cancelled": "The permission for {call} was withdrawn",
    "permit.expired": "The permission for {call} was not used in time",
    "permit.revoked": "The permission for {call} was withdrawn",
    "ungoverned": "{who} ran {call} without asking",
    "reveal": "{who} looked at the hidden values of {call}",
    "policy.activated": "{who} activated policy version {version}",
    "policy.applied": "{who} applied the policy to waiting calls",
    "policy.draft": "{who} changed the policy draft",
    "grant.given": "{who} gave a standing approval",
    "grant.revoked": "{who} revoked a standing approval",
    "killswitch.on": "{who} stopped all agents",
    "killswitch.off": "{who} let agents run again",
    "breakglass.on": "{who} paused approvals",
    "breakglass.ended": "The pause of approvals ended",
    "key.created": "{who} created key {prefix} for {source}",
    "key.revoked": "{who} revoked key {prefix} of {source}",
    "key.reopened": "{who} let key {prefix} of {source} work again",
    "key.deleted": "{who} deleted key {prefix} of {source}",
    "key.exposed": "Key {prefix} of {source} was sent by an agent",
    "token.created": "{who} created token {prefix}",
    "token.revoked": "{who} revoked token {prefix}",
    "source.created": "{who} added {source}",
    "source.changed": "{who} changed {source}",
    "source.deleted": "{who} deleted {source}",
    "person.created": "{who} added {person}",
    "person.changed": "{who} changed {person}",
    "person.rights": "{who} changed the permissions of {person}",
    "person.groups": "{who} changed the groups of {person}",
    "person.password": "{who} set a password for {person}",
    "person.link": "{who} made a sign-in link for {person}",
    "person.deleted": "{who} deleted {person}",
    "group.created": "{who} added group {group}",
    "group.renamed": "{who} renamed group {group}",
    "group.rights": "{who} changed the permissions of group {group}",
    "group.deleted": "{who} deleted group {group}",
    "signin": "{who} signed in",
    "signout": "{who} signed out",
    "signin.refused": "A sign-in failed",
    "signin.throttled": "Sign-ins were slowed down",
    "tool.changed": "Tool {tool} changed",
    "tool.accepted": "{who} accepted the changed tool {tool}",
    "reviewer.reset": "{who} turned reviewer {reviewer} on again",
    "notify.gone": "Notifications to {name} ended, because it is gone",
    "retention": "Old data was deleted",
    "resealed": "Encrypted texts got a new key",
    "audit.exported": "{who} exported the audit trail",
    "trail.reanchored": "{who} accepted the audit trail as it is",
    "trail.restored": "{who} restored a backup",
}
_EFFECTS = {"allow": "{who} allowed {call}", "ask": "{who} asked about {call}", "deny": "{who} denied {call}"}


def describe_act(row: AuditRow, details: Mapping[str, Any], call: str = "") -> str:
    """Return the act as a sentence.

    `call` is the call as a sentence; without it, the tool names the call.
    """
    parent = row.act.rpartition(".")[0]
    text = _EFFECTS.get(str(details.get("effect")), "") if row.act == "decision" else _SENTENCES.get(row.act, "")
    text = text or _SENTENCES.get(parent) or f"{{who}}: {row.act.replace('.', ' ').replace('_', ' ')}"
    title = f"“{call}”" if call else str(details.get("tool") or "a call")
    return text.format_map(_Values(details, who=_name_actor(row), call=title))


def _name_actor(row: AuditRow) -> str:
    """Return who acted, as a sentence begins; a person's name stays as it is."""
    if row.actor_kind == "human":
        return row.actor or "Someone"
    name = describe_actor(Actor(row.actor_kind, row.actor)) if row.actor_kind != "command" else "a command"
    return f"{name[:1].upper()}{name[1:]}"


class _Values(dict[str, Any]):
    """The details for a sentence. A detail that an old row does not have is left out."""

    def __missing__(self, key: str) -> str:
        return "…"
