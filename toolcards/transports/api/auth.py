"""Authentication of machine requests: an agent with its key, or a person, by session or personal token.

Keys and tokens come in the `Authorization` header only, never in a URL. Their scopes are cached, so that frames need
no query. A revoked one stops working at once in the process that revokes it, and within `CACHE_SECONDS` in others.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.utils import timezone

from toolcards import database, outages
from toolcards.gate.source_usage import usage_book
from toolcards.models import READ_ALL, AgentKey, PersonalToken, Source, get_key_changes, hash_secret
from toolcards.models.people import list_granted_scopes
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.seats import VIEW, Seat, build_seat

CACHE_SECONDS = 2.0  # seconds
CACHE_SIZE = 10_000
USE_SECONDS = 60.0  # seconds between two notes that a key was used
FAILURES, WINDOW = 60, 10.0  # wrong keys in so many seconds; further ones get 429


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent (`source`, by its `key`) or a person (`source` None, at a `seat` or by a personal `token`)."""

    source: Source | None
    key: int = 0
    scopes: frozenset[str] = frozenset()
    person: Any = None
    seat: Seat | None = None
    token: int = 0

    @property
    def reads_only(self) -> Source | None:
        """The only source that this caller may read; None for all.

        People and keys with the scope `read:all` read all sources.
        """
        return None if READ_ALL in self.scopes else self.source

    @property
    def agent(self) -> Source:
        """The agent's source; only for callers that are agents."""
        assert self.source is not None
        return self.source


@dataclass(frozen=True, slots=True)
class _CachedCaller:
    """The result of a search: valid until a monotonic time, or until another change of keys."""

    caller: Caller | None
    valid_until: float
    changes: int


_callers: OrderedDict[str, _CachedCaller] = OrderedDict()
_searches: dict[tuple[str, int], asyncio.Future[Caller | None]] = {}
_use_times: dict[int, float] = {}
_failures: deque[float] = deque(maxlen=FAILURES)


async def authenticate_agent(authorization: str, *scopes: str) -> Caller:
    """Return the agent with this key; raises Problem 401, 403 or 429.

    The key needs one of the scopes.
    """
    caller = await _authenticate(authorization, scopes)
    if caller.token:
        raise Problem(403, "scope", "This needs an agent key; a personal token is for people.", close=4403)
    return caller


async def _authenticate(authorization: str, scopes: tuple[str, ...]) -> Caller:
    """Return the agent or person with this key or token, which has one of the scopes; raises Problem."""
    secret = read_bearer(authorization)
    if not secret:
        raise build_unauthorized("Agent key required: Authorization: Bearer <key>.")
    caller = await _get_caller(hash_secret(secret))
    if caller is None:
        raise _count_failure()
    _check_scopes(caller, scopes)
    return caller


def read_bearer(authorization: str) -> str:
    """Return the secret of the header `Authorization`, "" without one."""
    kind, _, secret = authorization.partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def authenticate_token(authorization: str, scope: str) -> PersonalToken:
    """Return the live token with this scope; raises Problem."""
    secret = read_bearer(authorization)
    token = PersonalToken.objects.find_by_secret(secret)
    if token is None:
        if AgentKey.objects.find_by_secret(secret) is not None:
            raise Problem(403, "forbidden", "Agent keys cannot vote or change the policy.")
        raise _count_failure()
    _record_token_use(token)
    if scope not in token.scopes.split():
        raise Problem(403, "scope", f"This token lacks the scope {scope}.")
    return token


async def authenticate_reader(request: Any, *scopes: str) -> Caller:
    """Return the agent or person of a reading request; raises Problem."""
    authorization = request.headers.get("Authorization", "")
    if authorization or settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return await _authenticate(authorization, scopes)
    person, may = await aget_person(request)
    if person is None:
        raise build_unauthorized("Sign in, or send an agent key.")
    if not may:
        raise Problem(403, "scope", "Your account has no role that can read.", close=4403)
    return Caller(None, person=person, seat=build_seat(person, request.session))


def clear_cache() -> None:
    """Clear the cache of keys and failures (tests)."""
    _callers.clear()
    _use_times.clear()
    _failures.clear()


def _check_scopes(caller: Caller, scopes: tuple[str, ...]) -> None:
    if scopes and not caller.scopes.intersection(scopes):
        lack = "This token, or your role, lacks" if caller.token else "This key lacks"
        raise Problem(403, "scope", f"{lack} the scope {' or '.join(scopes)}.", close=4403)


def build_unauthorized(message: str) -> Problem:
    """Return Problem 401 with this message."""
    return Problem(401, "unauthorized", message, close=4401, headers={"WWW-Authenticate": "Bearer"})


def _count_failure() -> Problem:
    now = time.monotonic()
    many = len(_failures) == FAILURES and now - _failures[0] < WINDOW
    _failures.append(now)
    if many:
        return Problem(429, "slow_down", "Too many unknown keys.", close=4401, headers={"Retry-After": "10"})
    return build_unauthorized("Unknown, revoked or expired agent key.")


async def _get_caller(digest: str) -> Caller | None:
    cached_caller, changes = _callers.get(digest), get_key_changes()
    if cached_caller is not None and cached_caller.valid_until > time.monotonic() and cached_caller.changes == changes:
        return cached_caller.caller
    search = _searches.get((digest, changes))
    if search is None or search.get_loop() is not asyncio.get_running_loop():
        search = _searches[digest, changes] = asyncio.ensure_future(_search(digest, changes))
    return await asyncio.shield(search)


async def _search(digest: str, changes: int) -> Caller | None:
    """Look the key up and cache the result; all requests with the key wait for one search."""
    try:
        caller = await _afind_caller(digest)
    finally:
        _searches.pop((digest, changes), None)
    _callers[digest] = _CachedCaller(caller, time.monotonic() + CACHE_SECONDS, changes)
    _callers.move_to_end(digest)
    if len(_callers) > CACHE_SIZE:
        _callers.popitem(last=False)
    return caller


# Not thread-sensitive: the one thread that those share would make every caller wait for the slowest.
def _find_caller(digest: str) -> Caller | None:
    key = AgentKey.objects.live().select_related("source").filter(digest=digest).first()
    if key is None:
        return _find_caller_by_token(digest)
    if time.monotonic() - _use_times.get(key.pk, -USE_SECONDS) >= USE_SECONDS:
        _use_times[key.pk] = time.monotonic()
        _record_use(key)
    usage_book.read(key.source_id)
    scopes = frozenset(key.scopes.split())
    return Caller(key.source, key.pk, scopes | {"read"} if READ_ALL in scopes else scopes)


def _find_caller_by_token(digest: str) -> Caller | None:
    token = PersonalToken.objects.live().select_related("person").filter(digest=digest).first()
    if token is None:
        return None
    _record_token_use(token)
    scopes = list_granted_scopes(token.person, token.scopes.split())
    return Caller(None, scopes=scopes, person=token.person, token=token.pk)


def _record_token_use(token: PersonalToken) -> None:
    """Record that the token was used, at most once a minute."""
    now = timezone.now()
    if token.used_at is None or (now - token.used_at).total_seconds() >= USE_SECONDS:
        try:
            PersonalToken.objects.filter(pk=token.pk).update(used_at=now)
        except Exception as error:
            if not database.report_outage(error, outages.WRITING):
                raise


def _record_use(key: AgentKey) -> None:
    """Record that the key was used, which ends the one it replaces. A busy database does not keep its owner out."""
    try:
        AgentKey.objects.end_replaced(key)
        AgentKey.objects.filter(pk=key.pk).update(used_at=timezone.now())
        Source.objects.filter(pk=key.source_id).update(seen_at=timezone.now())
    except Exception as error:
        if not database.report_outage(error, outages.WRITING):
            raise


def _find_live_keys(keys: Iterable[int]) -> set[int]:
    return set(AgentKey.objects.live().filter(pk__in=list(keys)).values_list("pk", flat=True))


def _find_reading_tokens(tokens: Iterable[int]) -> set[int]:
    live_tokens = PersonalToken.objects.live().filter(pk__in=list(tokens)).select_related("person")
    return {token.pk for token in live_tokens if token.person.has_perm(VIEW)}


async def is_person(request: Any) -> bool:
    """Return whether a person with a role sends the request."""
    if secret := read_bearer(request.headers.get("Authorization", "")):
        caller = await _get_caller(hash_secret(secret))
        return caller is not None and bool(caller.token and caller.scopes)
    person, may = await aget_person(request)
    return person is not None and bool(may)


def _get_person(request: Any) -> tuple[Any, bool]:
    if not hasattr(request, "session"):
        engine = import_module(settings.SESSION_ENGINE)
        request.session = engine.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    person = get_user(request)
    if not person.is_authenticated or not person.is_active:
        return None, False
    return person, person.has_perm(VIEW)


_afind_caller = database.retry_reads(_find_caller)
afind_live_keys, aget_person = database.retry_reads(_find_live_keys), database.retry_reads(_get_person)
afind_reading_tokens = database.retry_reads(_find_reading_tokens)


# How much each source may send in an hour, so that one key cannot fill the disk.
#
# `toolcards.gate.source_usage` counts. Of a refused message nothing is stored.
CLOSE_QUOTA = 4429


class QuotaExceeded(Problem):
    """A source has sent as much as it may: status 429, socket code 4429."""


def charge(source: int, size: int, *, follow_up: int = 0) -> None:
    """Count bytes of a source, which `follow_up` more follow; raises QuotaExceeded."""
    if seconds := usage_book.count(source, size, follow_up=follow_up):
        limit = f"{settings.TOOLCARDS.source_quota:g} MB an hour (TOOLCARDS_SOURCE_QUOTA)"
        message = f"This source has sent as much as it may: {limit}. Try again in {seconds} s."
        raise QuotaExceeded(429, "quota_exceeded", message, close=CLOSE_QUOTA, headers={"Retry-After": str(seconds)})


def give_back(source: int, size: int) -> None:
    """Uncount bytes of which nothing is stored."""
    if settings.TOOLCARDS.source_quota and size:
        usage_book.give_back(source, size)


def charge_request(caller: Caller | None, request: Any) -> None:
    """Count the body of an agent's request; raises QuotaExceeded."""
    if caller is not None and caller.source is not None and request.method == "POST":
        charge(caller.source.pk, len(request.body))
