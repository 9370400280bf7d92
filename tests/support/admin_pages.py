"""Addresses of the Django admin."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote
from django.urls import reverse

READ_ONLY = ("run", "toolcall", "event", "approval", "policyversion")


def address(model: str, page: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:toolcards_{model}_{page}", args=[quote(part) for part in args])
