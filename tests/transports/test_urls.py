"""Addresses for machines: Django serves the same ones, under names of their own."""

from __future__ import annotations

from django.urls import NoReverseMatch, resolve, reverse

from tests.support.tables import loop_over
from toolcards.transports.urls import ROUTES, urlpatterns


def test_every_address_has_a_name_of_its_own() -> None:
    names = [pattern.name for pattern in urlpatterns]
    assert len({*names}) == len(names) == len(ROUTES)


@loop_over("route", ROUTES)
def test_django_serves_every_address_by_the_same_view(route: str) -> None:
    path = "/" + "/".join("x" if part.startswith("<") else part for part in route.split("/"))
    match = resolve(path)
    assert match.func is ROUTES[route] and {*match.kwargs.values()} <= {"x"}
    try:
        assert reverse(match.view_name, kwargs=match.kwargs) == path
    except NoReverseMatch as error:
        raise AssertionError(f"{path} has no name") from error


@loop_over("route", ROUTES)
def test_the_name_of_an_address_is_its_path_below_the_version(route: str) -> None:
    expected = "api-" + route.removeprefix("api/v1/") if route.startswith("api/v1/") else route
    assert expected in {pattern.name for pattern in urlpatterns}


@loop_over("route", ROUTES)
def test_every_view_says_how_it_is_asked(route: str) -> None:
    view = ROUTES[route]
    assert view.method in {"GET", "POST"} and view.permission in {"anyone", "agent key"}
    assert view.reads == (view.method == "POST")
