"""Every address for machines, once: `ROUTES` are answered directly (see routing), and by Django where that serves."""

from __future__ import annotations

from django.urls import path

from toolcards.transports import api, decide, health, hooks, passthrough

# The parts in angle brackets are one segment of the path as it was sent; `%2F` belongs to a name.
ROUTES = {
    "healthz": health.healthz,
    "readyz": health.readyz,
    "metrics": health.metrics,
    "api/v1/runs": api.runs,
    "api/v1/runs/<run>": api.run,
    "api/v1/runs/<run>/calls": api.calls,
    "api/v1/runs/<run>/events": api.events,
    "api/v1/runs/<run>/beat": decide.beat,
    "api/v1/runs/<run>/end": decide.end,
    "api/v1/approvals": api.approvals,
    "api/v1/approvals/<approval>": decide.approval,
    "api/v1/approvals/<approval>/withdraw": decide.withdraw,
    "api/v1/calls/decide": decide.decide,
    "api/v1/calls/<call_id>/result": decide.result,
    "api/v1/permits/<permit>/claim": decide.claim,
    "api/v1/ag-ui/<upstream>": passthrough.run,
    "api/v1/ag-ui/<upstream>/resume": passthrough.resume,
    "api/v1/hooks/claude-code": hooks.claude_code,
}

urlpatterns = [path(pattern, view, name=pattern.replace("api/v1/", "api-")) for pattern, view in ROUTES.items()]
