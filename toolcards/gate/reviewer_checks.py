"""Checks the reviewers of a policy against this server: commands that may be run, addresses that may be reached."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from toolcards.client.common.canonical_json import escape
from toolcards.core.policy.decision import RuleSet
from toolcards.core.policy.language.document import PolicyFinding
from toolcards.notifications import webhooks


def check_reviewers(policy: RuleSet) -> Iterator[PolicyFinding]:
    """Yield what keeps the reviewers from being asked on this server."""
    for name, reviewer in policy.reviewers.items():
        pointer = f"/reviewers/{escape(name)}"
        if reviewer.kind == "command":
            if reviewer.command not in settings.TOOLCARDS.commands_of_reviewers:
                message = f"TOOLCARDS_REVIEWER_COMMANDS does not list the command {reviewer.command}."
                yield PolicyFinding(f"{pointer}/command", "unknown_command", message, grave=True)
            continue
        try:
            webhooks.check_url(reviewer.url)
        except webhooks.UnsafeUrl as error:
            yield PolicyFinding(f"{pointer}/url", "unsafe_url", str(error), grave=True)
