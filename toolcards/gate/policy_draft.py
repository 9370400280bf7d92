"""The draft of the policy: reads and edits its rules and its other fields, and creates the starter policy."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from django.db import transaction

from toolcards.audit.trail import Act, write_acts
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import Effect, Rule
from toolcards.core.policy.language import document as documents
from toolcards.core.policy.language.beaten_rules import BeatenRule, find_winners
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.core.policy.language.lint import lint
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.lasting.answers import except_clause
from toolcards.gate.decisions import eligibility
from toolcards.gate.policy_store import FIRST_RUN_AUTHOR, activate, get_active_version_number, load_document
from toolcards.models import Draft, DraftRule, PolicyVersion

STARTER_PRESET = "ask-on-writes"
EMPTY_DOCUMENT: dict[str, Any] = {"v": 1, "default": "ask"}
_COLUMN_FIELDS = frozenset({"id", "effect", "enabled"})  # of a draft rule; the rest of the rule is its body


def load_draft() -> dict[str, Any]:
    """Return the draft as a policy document."""
    head = Draft.objects.first()
    document: dict[str, Any] = json.loads(head.head) if head else dict(EMPTY_DOCUMENT)
    document["rules"] = [build_rule_document(rule) for rule in DraftRule.objects.all()]
    return document


def build_rule_document(rule: DraftRule) -> dict[str, Any]:
    """Return the draft rule as an object of the policy document."""
    body: dict[str, Any] = json.loads(rule.body) | {"id": rule.rule_id, "effect": rule.effect}
    return body if rule.enabled else body | {"enabled": False}


def describe_rule(rule: DraftRule) -> str:
    """Return the draft rule as an English sentence."""
    return documents.parse_rule(build_rule_document(rule)).sentence


@transaction.atomic
def replace_draft(document: dict[str, Any], *, author: str, text: str = "") -> None:
    """Replace the draft by the document; raises PolicyError.

    `text` is the YAML of the document, with comments.
    """
    names = [rule.id for rule in documents.parse(document).rules]
    head = {name: value for name, value in document.items() if name != "rules"}
    Draft.objects.all().delete()
    text = text.replace("\r\n", "\n")  # browsers send it so
    Draft.objects.create(head=json.dumps(head), text=text, based_on=get_active_version_number(), updated_by=author)
    DraftRule.objects.all().delete()
    for name, rule in zip(names, document.get("rules", ()), strict=True):
        DraftRule.objects.create(rule_id=name, **_build_columns(rule, author))
    _audit("policy.draft", author, sha256=digest(document), rules=len(names))


def _audit(act: str, author: str, **detail: Any) -> None:
    """Add a change of the draft to the audit trail, in the same transaction."""
    write_acts(Act(act, "human" if author else "", author, detail=detail))


@transaction.atomic
def update_draft_head(changes: dict[str, Any], *, author: str) -> None:
    """Change fields of the draft other than its rules; raises PolicyError.

    None removes a field.
    """
    document = {name: value for name, value in (load_draft() | changes).items() if value is not None}
    documents.parse(document)
    head = {name: value for name, value in document.items() if name != "rules"}
    row = Draft.objects.first() or Draft(based_on=get_active_version_number())
    was = json.loads(row.head)
    row.head, row.updated_by = json.dumps(head), author
    row.save()
    changed_names = {name for name in {*was, *head} if was.get(name) != head.get(name)}
    if changed_names:
        changes_by_field = {name: {"was": was.get(name), "is": head.get(name)} for name in sorted(changed_names)}
        _audit("policy.draft.head", author, **changes_by_field)


@transaction.atomic
def save_rule(
    rule: dict[str, Any], *, author: str, instead_of: str = "", excepted_from: Collection[str] = ()
) -> DraftRule:
    """Add or replace (`instead_of`) a rule of the draft; raises PolicyError.

    Its conditions become an exception of the rules `excepted_from`.
    """
    rule = {name: value for name, value in rule.items() if value is not None}
    rule["id"] = check_rule(rule, instead_of=instead_of)
    row = DraftRule.objects.select_for_update().filter(rule_id=instead_of).first() if instead_of else None
    was = _digest_rule(row) if row else ""
    if row is None:
        row = DraftRule()
    row.rule_id = rule["id"]
    for column, value in _build_columns(rule, author).items():
        setattr(row, column, value)
    row.save()
    names = {"rule": row.rule_id} | ({"before": instead_of} if instead_of not in {"", row.rule_id} else {})
    state = {"effect": row.effect, "enabled": row.enabled, "sha256": _digest_rule(row)}
    previous = {"was": was} if was else {}
    _audit(f"policy.draft.{'changed' if was else 'added'}", author, **names, **state, **previous)
    for strict_row in DraftRule.objects.filter(rule_id__in=excepted_from):
        strict_rule = except_clause(build_rule_document(strict_row), rule["match"])
        save_rule(strict_rule, author=author, instead_of=strict_row.rule_id)
    return row


def _digest_rule(rule: DraftRule) -> str:
    return digest(build_rule_document(rule))


def check_rule(rule: dict[str, Any], *, instead_of: str = "") -> str:
    """Check a rule of the draft and return its id; raises PolicyError.

    The pointers of its findings are relative to the rule.
    """
    other_rules = _list_other_rules(instead_of)
    if "id" not in rule and instead_of:
        rule = rule | {"id": instead_of}
    pointer = f"/rules/{len(other_rules)}"
    try:
        policy = documents.parse(load_draft() | {"rules": [*other_rules, rule]})
    except PolicyError as wrong:
        raise PolicyError(_select_findings_below(pointer, wrong.findings) or wrong.findings) from None
    grave = _select_findings_below(
        pointer, [finding for finding in lint(policy, groups=eligibility.count_voters_by_name()) if finding.grave]
    )
    if grave:
        raise PolicyError(grave)
    return policy.rules[-1].id


def _list_other_rules(instead_of: str) -> list[dict[str, Any]]:
    return [build_rule_document(row) for row in DraftRule.objects.exclude(rule_id=instead_of)]


def find_rule_winners(rule: dict[str, Any], *, instead_of: str = "") -> BeatenRule | None:
    """Return the draft rules that beat a checked rule, or None."""
    policy = documents.parse(load_draft() | {"rules": [*_list_other_rules(instead_of), rule]})
    return find_winners(policy, rule["id"])


def can_be_exception(rule: dict[str, Any], winners: Iterable[Rule], *, instead_of: str = "") -> bool:
    """Return whether a rule wins as an exception of these rules.

    Rules that deny get no exceptions this way: a person edits them.
    """
    ids = {winner.id for winner in winners if winner.effect is Effect.ASK}
    if rule["effect"] != Effect.ALLOW or not rule.get("match") or ids != {winner.id for winner in winners}:
        return False
    changed_rules = [
        except_clause(each, rule["match"]) if each["id"] in ids else each for each in _list_other_rules(instead_of)
    ]
    try:
        policy = documents.parse(load_draft() | {"rules": [*changed_rules, rule]})
    except PolicyError:
        return False
    return find_winners(policy, rule["id"]) is None


def _select_findings_below(pointer: str, findings: list[PolicyFinding]) -> list[PolicyFinding]:
    """Return the findings below a JSON Pointer, with pointers relative to it."""
    below = (finding for finding in findings if f"{finding.pointer}/".startswith(f"{pointer}/"))
    return [replace(finding, pointer=finding.pointer.removeprefix(pointer)) for finding in below]


@transaction.atomic
def set_rule_enabled(rule_id: str, is_enabled: bool, *, author: str) -> bool:
    """Turn a draft rule on or off; return whether it exists."""
    row = DraftRule.objects.select_for_update().filter(rule_id=rule_id).first()
    if row is None:
        return False
    if row.enabled != is_enabled:
        DraftRule.objects.filter(pk=row.pk).update(enabled=is_enabled, updated_by=author)
        _audit("policy.draft.switched", author, rule=rule_id, on=is_enabled)
    return True


@transaction.atomic
def restore_rule(rule_id: str, *, author: str) -> bool:
    """Give a draft rule its active form, or remove it.

    Returns whether it existed; raises UnreadablePolicy if the active version cannot be read.
    """
    version = PolicyVersion.objects.filter(active=True).first()
    rules = load_document(version).get("rules", ()) if version else ()
    active_rule = next((rule for rule in rules if rule.get("id") == rule_id), None)
    if active_rule is None:
        return remove_rule(rule_id, author=author)
    row = DraftRule.objects.filter(rule_id=rule_id).first()
    if row is None or build_rule_document(row) != active_rule:
        save_rule(dict(active_rule), author=author, instead_of=rule_id)
    return True


@transaction.atomic
def remove_rule(rule_id: str, *, author: str = "") -> bool:
    """Remove a rule from the draft; return whether it existed."""
    row = DraftRule.objects.select_for_update().filter(rule_id=rule_id).first()
    if row is None:
        return False
    sha256 = _digest_rule(row)
    row.delete()
    _audit("policy.draft.removed", author, rule=rule_id, effect=row.effect, sha256=sha256)
    return True


def _build_columns(rule: dict[str, Any], author: str) -> dict[str, Any]:
    body = {name: value for name, value in rule.items() if name not in _COLUMN_FIELDS}
    return {
        "effect": rule["effect"], "enabled": rule.get("enabled", True), "body": json.dumps(body), "updated_by": author,
    }  # fmt: skip


@transaction.atomic
def ensure_first_version(default: str | None = None) -> PolicyVersion | None:
    """Activate the starter policy on the first start, with its draft."""
    if PolicyVersion.objects.exists():
        return None
    pack = PRESETS[STARTER_PRESET]
    document = pack.with_default(default)
    version = activate(document, author=FIRST_RUN_AUTHOR, note=f"Starter policy: {pack.title}.", expected_active=0)
    replace_draft(document, author=FIRST_RUN_AUTHOR)
    return version
