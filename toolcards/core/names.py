"""What a call's tool may be called: rules that ask or deny hold for every spelling, rules that allow for one."""

from __future__ import annotations

import re
from functools import lru_cache

from toolcards.client.common.lookalikes import skeleton
from toolcards.core.question import Question

_JOINTS = re.compile(r"_{2,3}|[./:]")
_LONGEST = 400


def spellings(question: Question) -> tuple[str, ...]:
    """Return the skeletons of all that the tool may be taken for: its name, and the tool alone without its server.

    `mcp__files__bash`, `files__bash`, `mcp_files_bash` and `files.bash` may all be taken for `bash`.
    """
    if len(question.tool) + len(question.qualified) > _LONGEST:
        return _spellings.__wrapped__(question.tool, question.qualified)
    return _spellings(question.tool, question.qualified)


@lru_cache(maxsize=2_048)
def _spellings(tool: str, qualified: str) -> tuple[str, ...]:
    seen = skeleton(tool)
    found = [seen, skeleton(qualified), *(seen[joint.end() :] for joint in _JOINTS.finditer(seen))]
    if seen.startswith("mcp_"):
        found += [seen[at + 1 :] for at, char in enumerate(seen) if char == "_"]
    return tuple(dict.fromkeys(found))


def looks_like(text: str) -> str:
    """Return what a rule names as a skeleton to compare `spellings` with; only its own * stands for anything."""
    return "*".join(skeleton(part).replace("*", "") for part in text.split("*"))


def exact(question: Question) -> tuple[str, ...]:
    """Return the one name that a rule has to spell to allow the tool: with its server, where it has one."""
    return (question.qualified,)


def exact_with_source(question: Question) -> tuple[str, ...]:
    """Return the names that may allow the tool where the rule names its source as well."""
    return (question.tool, question.qualified)
