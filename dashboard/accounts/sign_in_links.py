"""Sign-in links: printed in a terminal or given by an admin, good for one person, once, for a short time."""

import time

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core import signing
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from toolcards.audit.trail import Act, write

SALT = "toolcards.signin"
VIEW = "toolcards.view_toolcall"
LIFE = 15 * 60  # seconds
INVITED = 24 * 3600  # seconds: a link for somebody else is sent, and read later


def make_link(user: AbstractBaseUser, base: str, life: int = LIFE) -> str:
    """Return a URL under `base` (http://127.0.0.1:8000) that signs this person in, once, within `life` seconds.

    Whoever has it comes in as that person, so that it was made is written into the audit trail. Of who has never
    signed in, older links die with it.
    """
    if user.last_login is None:
        void_links(user)
    said = {"person": user.pk, "state": _state(user), "until": int(time.time()) + life}
    write(Act("person.link", detail={"person": user.get_username(), "minutes": life // 60}))
    return f"{base}/login/link/{signing.dumps(said, salt=SALT, compress=True)}/"


def void_links(user: AbstractBaseUser) -> None:
    """Let all links of a person without a password die, and the sessions that came of them."""
    if not user.has_usable_password():
        user.set_unusable_password()  # it has a random part, which links are bound to
        get_user_model().objects.filter(pk=user.pk).update(password=user.password)


def person_of(token: str) -> AbstractBaseUser | None:
    """Return the person that the link signs in; None if it was used, has expired, or they may see nothing."""
    try:
        meant = signing.loads(token, salt=SALT, max_age=INVITED)
    except signing.BadSignature:
        return None
    if meant.get("until", 0) < time.time():
        return None
    person = get_user_model().objects.filter(pk=meant["person"], is_active=True).first()
    if person is None or not constant_time_compare(_state(person), meant["state"]):
        return None
    return person if person.has_perm(VIEW) else None


def claim(token: str) -> AbstractBaseUser | None:
    """Use the link up and return its person, if no one has used it before."""
    person = person_of(token)
    if person is None:
        return None
    # Of two who press the button at the same moment, one finds the row as it read it.
    seen = get_user_model().objects.filter(pk=person.pk, is_active=True, last_login=person.last_login)
    return person if seen.update(last_login=timezone.now()) else None


def _state(user: AbstractBaseUser) -> str:
    """Return a digest of what ends all older links: a sign-in, a new password, becoming a superuser."""
    said = f"{user.pk}:{user.password}:{user.last_login}:{user.is_superuser}"  # who knew a link to less gets no more
    return salted_hmac(SALT, said, algorithm="sha256").hexdigest()[:32]
