"""Starter policies: documents a newcomer can activate as they are and change later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Where the tools that the catalogue knows take their commands; what only looks, `shell/programs.toml` says.
COMMANDS = ("/command", "/cmd", "/commands", "/CommandLine", "/action/command", "/action/commands")
ONLY_LOOKS = [{"args": [{"path": path, "op": "effect", "value": "none"}]} for path in COMMANDS]


@dataclass(frozen=True)
class Pack:
    """A starter policy and what to tell people about it."""

    title: str
    summary: str
    document: Mapping[str, Any]


PACKS: dict[str, Pack] = {
    "watch": Pack(
        "Watch",
        "Every call runs; you see all of them. Nothing waits for you.",
        {"v": 1, "default": "allow", "rules": []},
    ),
    "ask-on-writes": Pack(
        "Ask before changes",
        "Reading and searching run at once. Editing, deleting, moving and shell commands that do more than look wait "
        "for your answer.",
        {
            "v": 1,
            "default": "allow",
            "rules": [
                {
                    "id": "ask-edit",
                    "effect": "ask",
                    "match": {"kind": ["edit", "move"]},
                    "public_reason": "Changing files needs a person's yes.",
                },
                {
                    "id": "ask-delete",
                    "effect": "ask",
                    "severity": "high",
                    "match": {"kind": ["delete"]},
                    "public_reason": "Deleting needs a person's yes.",
                },
                {
                    "id": "ask-execute",
                    "effect": "ask",
                    "match": {"kind": ["execute"]},
                    "unless": ONLY_LOOKS,
                    "public_reason": "Running a command that may change something needs a person's yes.",
                    "suggest": "Plain commands that only look, such as ls, grep or git status, run without asking.",
                },
            ],
        },
    ),
    "locked-down": Pack(
        "Locked down",
        "Only tools known to read, search or think run at once. Everything else waits for your "
        "answer, and what no rule answers is refused.",
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
                    "public_reason": "Everything but reading needs a person's yes.",
                },
            ],
        },
    ),
}
