"""Policy versions: reads and compiles the active one, checks documents, and activates new versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from toolcards.audit.trail import Act, write_acts
from toolcards.client.common import tool_kinds
from toolcards.client.common.canonical_json import digest, escape
from toolcards.core.policy.decision import Effect, RuleSet
from toolcards.core.policy.language import document as documents
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.core.policy.language.lint import lint
from toolcards.gate.decisions import eligibility
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.models import Draft, PolicyVersion, Source, ToolCall, prepared_selects
from toolcards.notifications import webhooks

FIRST_RUN_AUTHOR = "setup"


class NoActivePolicy(Exception):
    """No policy version is active; every gated call is denied."""


class UnreadablePolicy(NoActivePolicy):
    """The document of version `number` is invalid; while it is active, every gated call is denied."""

    def __init__(self, number: int) -> None:
        super().__init__(f"version {number} cannot be read")
        self.number = number


class VersionConflict(Exception):
    """Another version was activated in the meantime; `active` is its number."""

    def __init__(self, active: int) -> None:
        super().__init__(f"version {active} is active now")
        self.active = active


# ---------------------------------------------------------------- what is active

_compiled: dict[tuple[int, str], RuleSet] = {}


def get_active_policy() -> RuleSet:
    """Return the active policy; raises NoActivePolicy or UnreadablePolicy.

    The version is read once in a transaction of the writer, else each time; its compiled policy is cached.
    """
    row = prepared_selects.recall(get_active_policy, _select_active_version)
    if row is None:
        raise NoActivePolicy
    compiled_policy = _compiled.get(row)
    if compiled_policy is None:
        compiled_policy = compile_version(PolicyVersion.objects.get(number=row[0]))
        _compiled.clear()  # another thread may need an older version at this moment: it compiles that again
        _compiled[row] = compiled_policy
    return compiled_policy


def leaves_questions() -> bool:
    """Return whether only an agent's own prompt answers its questions."""
    try:
        return get_active_policy().leaves_questions
    except NoActivePolicy:
        return False


def _select_active_version() -> tuple[int, str] | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number, sha256 FROM toolcards_policyversion WHERE active ORDER BY number DESC")
        row: tuple[int, str] | None = cursor.fetchone()
    return row


def get_active_version_number() -> int:
    """Return the number of the active version, 0 for none."""
    return PolicyVersion.objects.filter(active=True).values_list("number", flat=True).first() or 0


def compile_version(version: PolicyVersion) -> RuleSet:
    """Return the compiled policy of a version; raises UnreadablePolicy."""
    try:
        return documents.parse(json.loads(version.document), version=version.number)
    except Exception as error:  # changed by hand in the database, or written by a release with other rules
        raise UnreadablePolicy(version.number) from error


def load_document(version: PolicyVersion) -> dict[str, Any]:
    """Return the document of a version; raises UnreadablePolicy."""
    compile_version(version)
    document: dict[str, Any] = json.loads(version.document)
    return document


def check_document(document: Any) -> list[PolicyFinding]:
    """Return the warnings about a document; raises PolicyError.

    An error is an invalid document, a rule that asks but that no one may answer, or a reviewer that this server may
    not ask.
    """
    policy = documents.parse(document)
    tool_names = ToolCall.objects.order_by().values_list("tool", flat=True).distinct()[:2000]
    tools = {*tool_names, *tool_kinds.list_own_tools()} if tool_names else ()
    findings = lint(
        policy, known_tools=tools, groups=eligibility.count_voters_by_name(), people=eligibility.list_all_identities(),
        voters=eligibility.list_voter_identities(),
        owners=set(Source.objects.exclude(owner=None).values_list("owner__username", flat=True)),
    )  # fmt: skip
    findings += check_reviewers(policy)
    grave = [finding for finding in findings if finding.grave]
    if grave:
        raise PolicyError(grave)
    return findings


def is_default_unanswerable(source: Source) -> bool:
    """Return whether the default asks and no one may answer."""
    try:
        policy = get_active_policy()
    except NoActivePolicy:
        return False
    asks = Effect.ASK in (policy.default, policy.unknown_tool, policy.changed_tool)
    return asks and eligibility.count_eligible_voters(policy.ask, source) < policy.ask.quorum


@transaction.atomic
def activate(
    document: dict[str, Any], *, author: str, note: str = "", expected_active: int | None = None
) -> PolicyVersion:
    """Activate the document as a new version; raises PolicyError or VersionConflict.

    This does not run `check_document`, since at the first start no one can answer yet: callers do.
    """
    documents.parse(document)
    current = PolicyVersion.objects.select_for_update().filter(active=True).first()
    # After waiting for the lock the row can be inactive, so read the number again.
    number = current.number if current else get_active_version_number()
    if expected_active is not None and expected_active != number:
        raise VersionConflict(number)
    PolicyVersion.objects.filter(active=True).update(active=False)
    newest = PolicyVersion.objects.order_by("-number").values_list("number", flat=True).first() or 0
    version = PolicyVersion.objects.create(
        number=newest + 1,
        document=json.dumps(document),
        text=load_draft_text(),
        sha256=digest(document),
        author=author,
        note=fit_text(note, 2000),
        active=True,
    )
    Draft.objects.update(based_on=version.number)
    detail = {"version": version.number, "sha256": version.sha256, "was": number, "note": note}
    write_acts(
        Act("policy.activated", "command" if author in {"", FIRST_RUN_AUTHOR} else "human", author, detail=detail)
    )
    return version


def load_draft_text() -> str:
    """Return the draft's YAML that a person last wrote, or "".

    It can be older than the draft.
    """
    return Draft.objects.values_list("text", flat=True).first() or ""


# Checks the reviewers of a policy against this server: commands that may be run, addresses that may be reached.
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
