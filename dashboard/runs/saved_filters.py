"""Saved filters of Calls and Runs: each person's names for queries, as links, and the forms that change them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.accounts.access import get_signed_in_person, needs
from dashboard.search.filters import CallFilters, RunFilters
from toolcards.models import SavedFilter
from toolcards.models.people import MAX_NAME_LENGTH

MAX_SAVED = 20  # of one person on one page
FILTERS: dict[str, type[CallFilters] | type[RunFilters]] = {"calls": CallFilters, "runs": RunFilters}


class NotSavable(Exception):
    """Why a filter is not saved or renamed; the text is for the person."""


@dataclass(frozen=True, slots=True)
class SavedFilters:
    """A person's saved filters of a page, by name; `active`: that of the current query.

    `query`: the current one if it can be saved, else empty.
    """

    page: str
    rows: list[SavedFilter]
    active: SavedFilter | None
    query: str
    is_full: bool
    max_name_length: int = MAX_NAME_LENGTH


def list_saved_filters(request: HttpRequest, page: str, filters: CallFilters | RunFilters) -> SavedFilters:
    """Return the reader's saved filters of the page."""
    rows = list(SavedFilter.objects.filter(person=get_signed_in_person(request), page=page).order_by("name"))
    active = _find_same_filter(rows, filters) if filters.set else None
    query = "" if active else encode_filters(filters)
    return SavedFilters(page, rows, active, query, len(rows) >= MAX_SAVED)


def encode_filters(filters: CallFilters | RunFilters) -> str:
    """Return the query of the filters, empty for none."""
    return urlencode([(name, value) for name, value, _ in filters.set])


def _find_same_filter(rows: list[SavedFilter], filters: CallFilters | RunFilters) -> SavedFilter | None:
    return next((row for row in rows if type(filters).read(row.query) == filters), None)


@require_POST
@needs()
def save_filter(request: HttpRequest) -> HttpResponse:
    """Save a page's query under a name, and lead back to it."""
    page = request.POST.get("page", "")
    if page not in FILTERS:
        raise Http404("Page not found.")
    filters = FILTERS[page].read(request.POST.get("query", ""))
    try:
        name = read_name(request.POST.get("name", ""))
        create_saved_filter(get_signed_in_person(request), page, name, filters)
    except NotSavable as refusal:
        messages.error(request, str(refusal))
    return _redirect_to_page(page, encode_filters(filters))


@require_POST
@needs()
def rename_filter(request: HttpRequest, pk: int) -> HttpResponse:
    """Rename one of the reader's filters."""
    with transaction.atomic():
        _lock_filters_of(get_signed_in_person(request))
        row = _get_own_filter(request, pk)
        try:
            row.name = read_name(request.POST.get("name", ""))
            _refuse_taken_name(row)
            row.save(update_fields=["name"])
        except NotSavable as refusal:
            messages.error(request, str(refusal))
    return _redirect_to_page(row.page, row.query)


@require_POST
@needs()
def delete_filter(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete one of the reader's filters; its page stays as it is."""
    row = _get_own_filter(request, pk)
    row.delete()
    messages.success(request, "The saved filter is deleted.")
    return _redirect_to_page(row.page, row.query)


def create_saved_filter(person: User, page: str, name: str, filters: CallFilters | RunFilters) -> SavedFilter:
    """Save the filters; raises NotSavable."""
    if not filters.set:
        raise NotSavable("Choose a filter first, then save it.")
    with transaction.atomic():
        _lock_filters_of(person)
        row = SavedFilter(person=person, page=page, name=name, query=encode_filters(filters))
        _refuse_taken_name(row)
        rows = list(SavedFilter.objects.filter(person=person, page=page))
        if len(rows) >= MAX_SAVED:
            raise NotSavable(f"You have {MAX_SAVED} saved filters here, which is the limit. Delete one first.")
        if same := _find_same_filter(rows, filters):
            raise NotSavable(f"This filter is already saved as “{same.name}”.")
        row.save()
    return row


def read_name(text: str) -> str:
    """Return the name in one line; raises NotSavable."""
    field = forms.CharField(max_length=MAX_NAME_LENGTH)
    try:
        return str(field.clean(" ".join(text.split())))
    except forms.ValidationError:
        raise NotSavable(f"Enter a name of 1 to {MAX_NAME_LENGTH} characters.") from None


def _refuse_taken_name(row: SavedFilter) -> None:
    same_name = SavedFilter.objects.filter(person_id=row.person_id, page=row.page, name=row.name)
    if same_name.exclude(pk=row.pk).exists():
        raise NotSavable(f"You already have a saved filter named “{row.name}”.")


def _get_own_filter(request: HttpRequest, pk: int) -> SavedFilter:
    return get_object_or_404(SavedFilter, pk=pk, person=get_signed_in_person(request))


def _lock_filters_of(person: User) -> None:
    """Let one request at a time count and name a person's filters; SQLite has one writer anyway."""
    User.objects.select_for_update().get(pk=person.pk)


def _redirect_to_page(page: str, query: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"{reverse(page)}?{query}" if query else reverse(page))
