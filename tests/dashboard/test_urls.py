"""Addresses: each one leads to its own view, whatever comes before it in the list."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.urls import URLPattern, URLResolver, resolve, reverse
from django.urls.exceptions import Resolver404
from django.utils.module_loading import import_string

from dashboard import urls
from tests.support.tables import loop_over

SAMPLES = {
    "NumberConverter": 7,
    "IntConverter": 3,
    "SlugConverter": "a-b",
    "StringConverter": "x1",
    "PathConverter": "a/b",
}


def list_patterns(patterns: list[Any], prefix: str = "/") -> list[tuple[str, URLPattern]]:
    """Return each pattern but those of the admin, with a sample address."""
    pairs: list[tuple[str, URLPattern]] = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.app_name != admin.site.name:
                pairs += list_patterns(pattern.url_patterns, prefix + str(pattern.pattern))
            continue
        converters = pattern.pattern.converters
        samples = {name: str(SAMPLES[type(each).__name__]) for name, each in converters.items()}
        address = re.sub(r"<(?:\w+:)?(\w+)>", lambda match, samples=samples: samples[match[1]], str(pattern.pattern))
        pairs.append((prefix + address, pattern))
    return pairs


PATTERNS = list_patterns(urls.urlpatterns)


@loop_over(("address", "pattern"), PATTERNS, ids=[address for address, _ in PATTERNS])
def test_an_address_leads_to_its_own_view(address: str, pattern: URLPattern) -> None:
    match = resolve(address)
    assert match.func is pattern.callback and match.url_name == pattern.name, match.route
    if pattern.name:
        assert reverse(pattern.name, kwargs=match.captured_kwargs) == address


def test_names_and_addresses_are_used_once() -> None:
    names = [pattern.name for _, pattern in PATTERNS if pattern.name]
    assert len(set(names)) == len(names) > 80
    routes = [str(pattern.pattern) for _, pattern in PATTERNS]
    assert len(set(routes)) == len(routes)


@loop_over("address", [
    "/runs", "/calls/1-2", "/calls/1/", "/calls/1-2-3/", "/calls/-1-2/", f"/calls/{'9' * 19}-1/", "/calls/²-1/",
    "/policy/versions/x/", "/sources/0x1/", "/policy/packs/a b/", "/settings/people/1", "/api/v1/policy/draft/",
])  # fmt: skip
def test_an_address_that_is_no_page_leads_nowhere(address: str) -> None:
    with pytest.raises(Resolver404):
        resolve(address)


def test_a_run_may_have_any_name_and_hides_no_other_page() -> None:
    for name in ("a", "a/b", "votes", "../x", "é ü", "settings/people"):
        assert resolve(f"/runs/{name}/").kwargs == {"name": name}


def test_errors_have_pages_and_the_admin_signs_in_on_the_page_of_the_site() -> None:
    for handler in (urls.handler400, urls.handler500):
        assert callable(import_string(handler))
    assert resolve("/admin/login/").func.__module__ == "dashboard.accounts.sign_in_views"
    assert resolve("/admin/password_change/").func.__module__ != "django.contrib.admin.sites"
