"""The connect page's checklist: the steps of a source, from its key to a call that was held and answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolcards.models import AgentKey, Approval, Run
from toolcards.sources.capabilities import build_handed_over_filter


@dataclass(frozen=True, slots=True)
class ChecklistStep:
    """One line: `at` is when it was done, `next_action` what to do for it, `url` the page that shows it."""

    name: str
    word: str
    at: datetime | None
    next_action: str
    url: str = ""


def list_steps(source: str) -> list[ChecklistStep]:
    """Return the steps of a source, each with its latest event."""
    key = AgentKey.objects.live().filter(source__name=source).order_by("-created_at").first()
    run = Run.objects.filter(source__name=source).select_related("source").order_by("-id").first()
    approvals = Approval.objects.filter(run__source__name=source, asked=True).order_by("-requested_at")
    approvals = approvals.select_related("run__source")
    first_held, first_released = approvals.first(), approvals.filter(build_handed_over_filter()).first()
    return [
        ChecklistStep(
            "key", "Key created", key.created_at if key else None, "Create one here, or let the command create it."
        ),
        ChecklistStep(
            "event", "First event received", run.started_at if run else None,
            "Start your agent, or wait for the probe.", _link_to_run(run),
        ),
        ChecklistStep(
            "held", "Call held", _to_datetime(first_held.requested_at if first_held else None),
            "The probe asks for approval. So does your agent, for calls that the policy asks about.",
            _link_to_run(first_held and first_held.run),
        ),
        ChecklistStep(
            "released", "Decision delivered", _to_datetime(first_released.decided_at if first_released else None),
            "Approve or deny the held call.", _link_to_run(first_released and first_released.run),
        ),
    ]  # fmt: skip


def _link_to_run(run: Any) -> str:
    return run.url if run else ""


def _to_datetime(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
