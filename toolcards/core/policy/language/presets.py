"""Starter policies: documents that people can activate unchanged and edit later."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.matching.operands import HARMS, PACKAGE_LISTS
from toolcards.core.policy.shell.work.classes import WORK

# The commands that `shell/programs.toml` lists as read-only, wherever a tool takes its command.
READ_ONLY = {"args": [{"path": "", "op": "effect", "value": "none"}]}
LOOKS = {"args": [{"path": "", "op": "effect", "value": ["looks", "none"]}]}
READ_OR_FETCH = {"args": [{"path": "", "op": "effect", "value": ["none", "fetches"]}]}
DENY_HARMS = {
    "id": "deny-harms",
    "effect": "deny",
    "match": {"args": [{"path": "", "op": "harms", "value": list(HARMS)}]},
    "public_reason": "An agent never needs this: it deletes a home folder, a part of the system or a disk, rewrites a "
    "protected branch, runs code from the network that was not read, or changes what agents may do or Toolcards.",
    "suggest": "Delete files by their names, push to a branch of your own, read a download before you run it, and "
    "leave permissions and settings to a person.",
}
ASK_SECRETS = {
    "id": "ask-secrets",
    "effect": "ask",
    "severity": "high",
    "match": {"args": [{"path": "", "op": "touches", "value": ["secrets", "private-address"]}]},
    "public_reason": "This touches a secret or a private address.",
    "suggest": "Ask for the value that you need, or leave secrets out of paths, commands and URLs.",
}
ASK_CHANGES = (
    {
        "id": "ask-edit",
        "effect": "ask",
        "match": {"kind": ["edit", "move"]},
        "public_reason": "This changes files or data.",
    },
    {
        "id": "ask-execute",
        "effect": "ask",
        "match": {"kind": ["execute"]},
        "unless": [READ_ONLY],
        "public_reason": "This call may change something.",
        "suggest": "Read-only shell commands such as ls, grep or git status don't need approval.",
    },
)
INSIDE = {"path": "", "op": "inside_project"}
TOOL_ONLY = {"path": "", "op": "tool_only"}
# What the agent's own mode decides under *Follow the agent*: looking, and work in the project that can be undone there.
LEFT_TO_THE_AGENT = [
    {"kind": ["read", "search", "think", "fetch", "switch_mode"]},
    {"args": [TOOL_ONLY | {"value": ["reads", "queries", "pages"]}]},
    {"kind": ["execute"]} | READ_OR_FETCH,
    {"kind": ["execute"], "args": [{"path": "", "op": "effect", "value": ["none", "fetches", *WORK]}, INSIDE]},
    {"kind": ["edit", "move"], "args": [INSIDE | {"value": list(PACKAGE_LISTS)}]},
]


@dataclass(frozen=True)
class Preset:
    """A starter policy with its title and summary.

    `default_asks`: what its default asks about, as rules for another default.
    """

    title: str
    summary: str
    document: Mapping[str, Any]
    default_asks: tuple[Mapping[str, Any], ...] = ()

    def with_default(self, default: str | None) -> dict[str, Any]:
        """Return a copy of the document with this default effect.

        The policy's allows are exceptions from its own default. With another one they are left out, so that what they
        cover has the effect that was set, and what its own default asks about is asked by rules.
        """
        document: dict[str, Any] = deepcopy(dict(self.document))
        if default:
            document["default"] = default
            kept_rules = [rule for rule in document["rules"] if rule["effect"] != "allow"]
            document["rules"] = [*deepcopy(list(self.default_asks)), *kept_rules]
        return document


def find_newer_form(sha256: str) -> tuple[str, str]:
    """Return the starter whose former form this is, and its default.

    The default is "" if it is the starter's own; both are "" for other policies.
    """
    key = next((key for key, former in _load_former_forms().items() if sha256 in former), "")
    name, _, default = key.partition(" ")
    return name, default


@cache
def _load_former_forms() -> dict[str, list[str]]:
    forms = tomllib.loads(files(__package__).joinpath("starter_forms.toml").read_text("utf-8"))
    return {name: digests[:-1] for name, digests in forms.items()}


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
                DENY_HARMS,
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
                    "id": "ask-delete",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["delete"]},
                    "public_reason": "This deletes data.",
                },
                DENY_HARMS,
                ASK_SECRETS,
                {
                    "id": "allow-looks",
                    "effect": "allow",
                    "match": {"kind": ["read", "search", "think", "fetch", "execute"]} | LOOKS,
                    "public_reason": "This only reads.",
                },
            ],
        },
        ASK_CHANGES,
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
                DENY_HARMS,
                ASK_SECRETS,
            ],
        },
    ),
}
