"""Help pages, and the API's descriptions for programs."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.accounts.access import allow_anyone, needs
from dashboard.help.documents import list_documents, load_document
from toolcards.core.policy.language import document as policy_documents


@require_safe
@needs()
def index(request: HttpRequest) -> HttpResponse:
    """List the documents."""
    return render(request, "help/index.html", {"documents": list_documents()})


@require_safe
@needs()
def document(request: HttpRequest, name: str) -> HttpResponse:
    """Show one document."""
    try:
        context: dict[str, Any] = {"document": load_document(name), "documents": list_documents()}
    except FileNotFoundError:
        raise Http404 from None
    return render(request, "help/document.html", context)


@allow_anyone
@require_safe
def openapi(request: HttpRequest) -> JsonResponse:
    """Return the HTTP API as OpenAPI 3.1; no sign-in required."""
    from dashboard.help.openapi import build_document  # its models of answers are for this page alone

    return _describe(build_document())


@allow_anyone
@require_safe
def policy_schema(request: HttpRequest) -> JsonResponse:
    """Return the JSON Schema of policy documents, for editors."""
    return _describe(policy_documents.build_schema())


def _describe(value: dict[str, Any]) -> JsonResponse:
    response = JsonResponse(value)
    response["Cache-Control"] = "no-cache"
    response["Access-Control-Allow-Origin"] = "*"  # documentation tools in browsers read it
    return response
