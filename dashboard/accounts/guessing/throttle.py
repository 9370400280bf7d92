"""Throttles guessed passwords by name and by address, without locking out the owner of the name.

Each attempt takes a token from several buckets, which refill over time; a successful attempt returns them. Three rules
let a person in although an attacker guesses for their name:

- A browser that signed in as this person before, by its cookie, has a bucket of its own; no other bucket counts for it.
- The first attempt from an address always counts, however many others guess that name elsewhere.
- Buckets are never locked, only empty: each reports in how many seconds it has a token again.

Everything is kept in the memory of this process under keyed digests, so that typed names are not stored in the clear.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

from dashboard.networks import to_network

# Remembers in a browser's cookie who has signed in with it, so that guesses of others do not slow them down.
#
# The cookie is signed and signs no one in: it only selects a bucket of attempts (see `throttle`) for its own people.
SALT = "toolcards.device"
MAX_AGE = 365 * 24 * 3600  # seconds
MAX_PEOPLE = 5  # people of one browser


def find_device(request: HttpRequest, person: int | None) -> str:
    """Return the browser's id if the person has used it, else ""."""
    name, people = _read_cookie(request)
    return f"{name} {person}" if person in people else ""


def set_device_cookie(request: HttpRequest, response: HttpResponse, person: int) -> None:
    """Set the cookie that remembers this person."""
    name, people = _read_cookie(request)
    latest = [person, *(pk for pk in people if pk != person)][:MAX_PEOPLE]
    value = signing.dumps({"id": name or secrets.token_urlsafe(16), "people": latest}, salt=SALT)
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME, value, max_age=MAX_AGE, httponly=True, samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )  # fmt: skip


def _read_cookie(request: HttpRequest) -> tuple[str, list[int]]:
    try:
        content: Any = signing.loads(request.COOKIES.get(settings.DEVICE_COOKIE_NAME, ""), salt=SALT, max_age=MAX_AGE)
        return str(content["id"]), [int(pk) for pk in content["people"]]
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        return "", []


MAX_BUCKETS = 20_000  # buckets in memory; the oldest are forgotten first


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of attempts in a row, and the seconds until one more."""

    size: int
    refill: float


DEVICE = Allowance(10, 30.0)  # from a browser in which this person has signed in
PAIR = Allowance(10, 30.0)  # for one name from one address
CROWDED = Allowance(1, 300.0)  # the same, while many addresses guess the name
ADDRESS = Allowance(30, 10.0)  # from one address, for any name
NAME = Allowance(100, 20.0)  # for one name, from any address; beyond it, the name is crowded


class TooManyAttempts(Exception):
    """Too many failed attempts. `wait`: seconds until the next one counts; `first`: not reported before."""

    def __init__(self, wait: float, first: bool) -> None:
        super().__init__("too many failed sign-in attempts")
        self.wait, self.first = math.ceil(wait), first


@dataclass(slots=True)
class _Bucket:
    """The used part of an allowance at a moment of the clock."""

    spent: float = 0.0
    settled_at: float = 0.0
    announced: bool = False  # since when it is empty

    def settle(self, allowance: Allowance, now: float) -> None:
        """Return the tokens refilled since the last update."""
        self.spent = max(0.0, self.spent - (now - self.settled_at) / allowance.refill)
        self.settled_at = now
        self.announced = self.announced and self.spent > 0

    def wait(self, allowance: Allowance) -> float:
        """Return the seconds until a token is available, 0 if one is."""
        return max(0.0, (self.spent + 1 - allowance.size) * allowance.refill)


class SignInAttempt:
    """One attempt that was let through; it counts as failed unless `succeed` or `refund` is called."""

    def __init__(self, throttle: Throttle, keys: list[str], own: str) -> None:
        self._throttle, self._keys, self._own = throttle, keys, own

    def succeed(self) -> None:
        """Return the tokens and forget this name's earlier failures from here."""
        self._throttle._return(self._keys, forget=self._own)

    def refund(self) -> None:
        """Return the tokens, because no password was checked."""
        self._throttle._return(self._keys)


class Throttle:
    """The buckets of all names, addresses and devices."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admit(self, name: str, address: str, device: str = "") -> SignInAttempt:
        """Take the tokens of one attempt; raises TooManyAttempts.

        `device`: the browser if this person has signed in with it before, else empty.
        """
        name, address = _hash_key("name", _fold_name(name)), _hash_key("address", to_network(address))
        with self._lock:
            now = self._clock()
            if device:
                limits = [(_hash_key("device", device), DEVICE)]
            else:
                is_crowded = self._get_bucket(name, NAME, now).wait(NAME) > 0
                limits = [(_hash_key("pair", name + address), CROWDED if is_crowded else PAIR), (address, ADDRESS)]
            buckets = [(self._get_bucket(key, allowance, now), allowance) for key, allowance in limits]
            wait = max(bucket.wait(allowance) for bucket, allowance in buckets)
            if wait > 0:
                own = buckets[0][0]
                first, own.announced = not own.announced, True
                raise TooManyAttempts(wait, first)
            keys = [key for key, _ in limits] + ([] if device else [name])
            for key in keys:  # bounded, so that a name does not stay crowded for days after the last guess
                self._buckets[key].spent = min(self._buckets[key].spent + 1, 2.0 * NAME.size)
        return SignInAttempt(self, keys, keys[0])

    def clear(self) -> None:
        """Remove all buckets."""
        with self._lock:
            self._buckets.clear()

    def _get_bucket(self, key: str, allowance: Allowance, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(settled_at=now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.settle(allowance, now)
        return bucket

    def _return(self, keys: list[str], forget: str = "") -> None:
        with self._lock:
            for key in keys:
                bucket = self._buckets.get(key)
                if bucket is not None:
                    bucket.spent = 0.0 if key == forget else max(0.0, bucket.spent - 1)


def _fold_name(name: str) -> str:
    """Return the name normalized and without case, as accounts are distinguished."""
    return unicodedata.normalize("NFKC", name).casefold()


def _hash_key(kind: str, value: str) -> str:
    content = value.encode("utf-8", "surrogatepass")
    return salted_hmac(f"toolcards.throttle.{kind}", content, algorithm="sha256").hexdigest()


sign_ins = Throttle()
