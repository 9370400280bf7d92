"""Starter policies: documents that people can activate unchanged and edit later."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.shell.work.classes import WORK

# The commands that `shell/programs.toml` lists as read-only, wherever a tool takes its command.
READ_ONLY = {"args": [{"path": "", "op": "effect", "value": "none"}]}
DENIED = {
    "system": "This deletes a home folder, a part of the system or a disk. Delete the files that you mean, by name.",
    "history": "This rewrites a protected branch on the server. Push to a branch of your own and open a pull request.",
    "unread-code": "This runs code from the network that was not read. Download it, read it, then run the file.",
    "agent-permissions": "This changes what an agent may do. A person has to change such settings.",
    "gate": "This changes the key, the settings or the data of Toolcards. A person has to change them.",
}
DENY_HARMS = [
    {
        "id": f"deny-{name}",
        "effect": "deny",
        "match": {"args": [{"path": "", "op": "harms", "value": name}]},
        "public_reason": reason,
    }
    for name, reason in DENIED.items()
]
ASK_SECRETS = {
    "id": "ask-secrets",
    "effect": "ask",
    "severity": "high",
    "match": {"args": [{"path": "", "op": "touches", "value": ["secrets", "private-address"]}]},
    "public_reason": "This touches a secret or a private address.",
    "suggest": "Ask for the value that you need, or leave secrets out of paths, commands and URLs.",
}
INSIDE = {"path": "", "op": "inside_project"}
# What the agent's own mode decides under *Follow the agent*: looking, and work in the project that can be undone there.
LEFT_TO_THE_AGENT = [
    {"kind": ["read", "search", "think", "fetch", "switch_mode"]},
    {"kind": ["execute"]} | READ_ONLY,
    {"kind": ["execute"], "args": [{"path": "", "op": "effect", "value": ["none", *WORK]}, INSIDE]},
    {"kind": ["edit", "move"], "args": [INSIDE]},
]


@dataclass(frozen=True)
class Preset:
    """A starter policy with its title and summary."""

    title: str
    summary: str
    document: Mapping[str, Any]

    def with_default(self, default: str | None) -> dict[str, Any]:
        """Return a copy of the document with this default effect.

        The policy's allows are exceptions from its own default. With another one they are left out, so that what they
        cover has the effect that was set.
        """
        document: dict[str, Any] = deepcopy(dict(self.document))
        if default:
            document["default"] = default
            document["rules"] = [rule for rule in document["rules"] if rule["effect"] != "allow"]
        return document


PRESETS: dict[str, Preset] = {
    "watch": Preset(
        "Watch",
        "Calls run without approval, and you see all of them. What an agent asks on its own is answered where it runs.",
        {"v": 1, "default": "allow", "agent_questions": "agent", "rules": []},
    ),
    "follow-the-agent": Preset(
        "Follow the agent",
        "The agent decides as its own mode says, and what it asks is asked here. Toolcards asks about what leaves the "
        "project, deletes, or is not known. What an agent never needs to do is denied.",
        {
            "v": 1,
            "default": "allow",
            "rules": [
                {
                    "id": "ask-delete",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["delete"]},
                    "public_reason": "This deletes data.",
                },
                *DENY_HARMS,
                ASK_SECRETS,
                {
                    "id": "ask-outside",
                    "effect": "ask",
                    "match": {},
                    "unless": LEFT_TO_THE_AGENT,
                    "public_reason": "This leaves the project, or Toolcards does not know what it does.",
                },
            ],
        },
    ),
    "ask-on-writes": Preset(
        "Ask before changes",
        "Tools that only read, search, think or fetch run at once, and so do read-only shell commands. Everything else "
        "needs approval, including tools that Toolcards does not know.",
        {
            "v": 1,
            "default": "ask",
            "rules": [
                {
                    "id": "ask-edit",
                    "effect": "ask",
                    "match": {"kind": ["edit", "move"]},
                    "public_reason": "This changes files or data.",
                },
                {
                    "id": "ask-delete",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["delete"]},
                    "public_reason": "This deletes data.",
                },
                {
                    "id": "ask-execute",
                    "effect": "ask",
                    "match": {"kind": ["execute"]},
                    "unless": [READ_ONLY],
                    "public_reason": "This call may change something.",
                    "suggest": "Read-only shell commands such as ls, grep or git status don't need approval.",
                },
                *DENY_HARMS,
                ASK_SECRETS,
                {
                    "id": "allow-read-only",
                    "effect": "allow",
                    "match": {"kind": ["read", "search", "think", "fetch"]},
                    "public_reason": "This tool is read-only.",
                },
                {
                    "id": "allow-read-only-commands",
                    "effect": "allow",
                    "match": {"kind": ["execute"]} | READ_ONLY,
                    "public_reason": "This command is read-only.",
                },
            ],
        },
    ),
    "locked-down": Preset(
        "Locked down",
        "Only tools that read, search or think run at once. Everything else needs approval, and calls that no rule "
        "covers are denied.",
        {
            "v": 1,
            "default": "deny",
            "unknown_tool": "ask",
            "changed_tool": "ask",
            "rules": [
                {
                    "id": "allow-read-only",
                    "effect": "allow",
                    "match": {"kind": ["read", "search", "think"]},
                    "public_reason": "Reading, searching and thinking are allowed.",
                },
                {
                    "id": "ask-change",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["edit", "delete", "move", "execute", "fetch", "switch_mode", "other"]},
                    "public_reason": "Everything except reading requires approval.",
                },
                *DENY_HARMS,
                ASK_SECRETS,
            ],
        },
    ),
}
