"""All addresses for machines: `ROUTES` are answered directly (see routing), or by Django if it serves them."""

from __future__ import annotations

from typing import Any

from django.urls import path

from toolcards.transports import health, metrics
from toolcards.transports.agents import ag_ui_proxy, claude_code, gate_api
from toolcards.transports.api import read_api

# The parts in angle brackets are one segment of the path as it was sent; `%2F` belongs to a name.
ROUTES = {
    "healthz": health.healthz,
    "readyz": health.readyz,
    "metrics": metrics.metrics,
    "api/v1/runs": read_api.runs,
    "api/v1/runs/<run>": read_api.run,
    "api/v1/runs/<run>/calls": read_api.calls,
    "api/v1/runs/<run>/events": read_api.events,
    "api/v1/runs/<run>/beat": gate_api.beat,
    "api/v1/runs/<run>/end": gate_api.end,
    "api/v1/approvals": read_api.approvals,
    "api/v1/approvals/<approval>": gate_api.approval,
    "api/v1/approvals/<approval>/withdraw": gate_api.withdraw,
    "api/v1/calls/decide": gate_api.decide,
    "api/v1/calls/<call_id>/result": gate_api.result,
    "api/v1/permits/<permit>/claim": gate_api.claim,
    "api/v1/ag-ui/<upstream>": ag_ui_proxy.run,
    "api/v1/ag-ui/<upstream>/resume": ag_ui_proxy.resume,
    "api/v1/hooks/claude-code": claude_code.claude_code,
}


def _build_pattern(pattern: str, view: Any) -> Any:
    return path(pattern, view, name=pattern.replace("api/v1/", "api-"))


urlpatterns = [_build_pattern(pattern, view) for pattern, view in ROUTES.items()]
