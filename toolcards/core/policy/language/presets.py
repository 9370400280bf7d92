"""Starter policies: documents that people can activate unchanged and edit later."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

# The arguments in which known tools take their commands; `shell/programs.toml` lists which commands only look.
COMMANDS = ("/command", "/cmd", "/commands", "/CommandLine", "/action/command", "/action/commands")
ONLY_LOOKS = [{"args": [{"path": path, "op": "effect", "value": "none"}]} for path in COMMANDS]
ALLOW_LOOKING = [
    {
        "id": "allow-looking-at" + path.replace("/", "-"),
        "effect": "allow",
        "match": {"kind": ["execute"]} | only_looks,
        "public_reason": "This command is read-only.",
    }
    for path, only_looks in zip(COMMANDS, ONLY_LOOKS, strict=True)
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
        "Every call runs, and you see all of them. Nothing waits for approval.",
        {"v": 1, "default": "allow", "rules": []},
    ),
    "ask-on-writes": Preset(
        "Ask before changes",
        "Tools that are known to only read, search or fetch run at once, and so do read-only shell commands. "
        "Everything else needs approval, including tools that Toolcards does not know.",
        {
            "v": 1,
            "default": "ask",
            "rules": [
                {
                    "id": "ask-edit",
                    "effect": "ask",
                    "match": {"kind": ["edit", "move"]},
                    "public_reason": "This changes files.",
                },
                {
                    "id": "ask-delete",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["delete"]},
                    "public_reason": "This deletes something.",
                },
                {
                    "id": "ask-execute",
                    "effect": "ask",
                    "match": {"kind": ["execute"]},
                    "unless": ONLY_LOOKS,
                    "public_reason": "This may change something.",
                    "suggest": "Read-only commands such as ls, grep or git status don't need approval.",
                },
                {
                    "id": "allow-looking",
                    "effect": "allow",
                    "match": {"kind": ["read", "search", "think", "fetch"]},
                    "public_reason": "This tool is read-only.",
                },
                *ALLOW_LOOKING,
            ],
        },
    ),
    "locked-down": Preset(
        "Locked down",
        "Only tools that are known to read, search or think run at once. Everything else needs approval, and what no "
        "rule covers is denied.",
        {
            "v": 1,
            "default": "deny",
            "unknown_tool": "ask",
            "changed_tool": "ask",
            "rules": [
                {
                    "id": "allow-reading",
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
            ],
        },
    ),
}
