"""The policy API for admins' programs: read and replace the draft, validate, activate, list versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.accounts.access import EDIT_POLICY, api, body_of, fault
from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import PolicyDecision
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.gate import VersionConflict, policy_draft, policy_store
from toolcards.models import PolicyVersion

View = Callable[..., HttpResponse]


def handle_policy_errors(view: View) -> View:
    """Answer invalid JSON with 400, an invalid policy with 422.

    The answer to an invalid policy lists its findings.
    """

    @wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except PolicyError as refused:
            return fault(
                422, "invalid_policy", "The policy is not valid.", findings=_serialize_findings(refused.findings)
            )
        except (ValueError, RecursionError):
            return fault(400, "not_json", "The body is not JSON.")

    return respond


@api(EDIT_POLICY, "GET", "PUT")
@handle_policy_errors
def draft(request: HttpRequest) -> HttpResponse:
    """Return or replace the draft, as a bare document."""
    if request.method == "PUT":
        document = _read_document(body_of(request))
        policy_store.check_document(document)
        text = policy_store.load_draft_text()  # rules that stay keep their comments
        policy_draft.replace_draft(document, author=request.user.get_username(), text=text)
    return JsonResponse(policy_draft.load_draft())


@api(EDIT_POLICY, "POST")
@handle_policy_errors
def validate(request: HttpRequest) -> HttpResponse:
    """Return the errors or the warnings of a document."""
    document = _read_document(body_of(request))
    warnings = policy_store.check_document(document)
    return JsonResponse({"ok": True, "sha256": digest(document), "warnings": _serialize_findings(warnings)})


@api(EDIT_POLICY, "POST")
@handle_policy_errors
def activate(request: HttpRequest) -> HttpResponse:
    """Activate the draft if the caller saw the active version."""
    body = require_object(body_of(request))
    expected_active, note = body.get("expected_active"), body.get("note") or ""
    if not isinstance(expected_active, int) or isinstance(expected_active, bool):
        raise build_error(
            "/expected_active",
            "missing",
            "expected_active must be the number of the active version, or 0 without one.",
        )
    if not isinstance(note, str) or len(note) > 2000:
        raise build_error("/note", "type", "This must be a text of up to 2000 characters.")
    document = policy_draft.load_draft()
    policy_store.check_document(document)
    try:
        version = policy_store.activate(
            document, author=request.user.get_username(), note=note, expected_active=expected_active
        )
    except VersionConflict as late:
        return fault(409, "superseded", f"Version {late.active} was activated in the meantime.", active=late.active)
    reevaluation = (
        gate.reevaluate_waiting(request.user.get_username()) if body.get("apply_to_waiting") is True else None
    )
    return JsonResponse(
        _serialize_version(version) | {"active": version.number} | ({"applied": reevaluation} if reevaluation else {})
    )


@api(EDIT_POLICY, "GET")
def versions(request: HttpRequest) -> HttpResponse:
    """List every version, newest first."""
    rows = PolicyVersion.objects.defer("document")[:1000]
    return JsonResponse(
        {"active": policy_store.get_active_version_number(), "versions": [_serialize_version(row) for row in rows]}
    )


# ---------------------------------------------------------------- shapes


def build_error(pointer: str, code: str, message: str) -> PolicyError:
    """Return the PolicyError for one place of a body."""
    return PolicyError([PolicyFinding(pointer, code, message)])


def require_object(value: Any, pointer: str = "") -> dict[str, Any]:
    """Return a copy of the object; raise PolicyError for other values."""
    if not isinstance(value, dict):
        raise build_error(pointer, "type", "This must be an object.")
    return dict(value)


def _read_document(value: Any) -> dict[str, Any]:
    return require_object(value)


def _serialize_findings(findings: Iterable[PolicyFinding]) -> list[dict[str, str]]:
    return [{"pointer": finding.pointer, "code": finding.code, "message": finding.message} for finding in findings]


def _serialize_version(version: PolicyVersion) -> dict[str, Any]:
    return {
        "version": version.number,
        "sha256": version.sha256,
        "author": version.author,
        "note": version.note,
        "created_at": version.created_at,
    }


def serialize_decision(decision: PolicyDecision) -> dict[str, Any]:
    """Return a decision as JSON."""
    return {
        "decision": str(decision.effect),
        "code": decision.code,
        "reason": decision.reason,
        "rule": decision.rule or None,
        "rules": list(decision.rules),
        "would": list(decision.would),
    }
