"""Sign-in links: for one person, valid once and for a short time; printed in a terminal or created by an admin."""

import re
import time
from base64 import urlsafe_b64encode

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.http import base36_to_int, int_to_base36

from toolcards.audit.trail import Act, write_acts

SALT = "toolcards.signin"
VIEW = "toolcards.view_toolcall"
LINK_SECONDS = 15 * 60  # seconds
_TOKEN = re.compile(r"(?P<person>[1-9][0-9]{0,17})\.(?P<deadline>[0-9a-z]{1,9})\.(?P<signature>[\w-]{22})", re.ASCII)
INVITATION_SECONDS = 24 * 3600  # seconds; longer, because a link for someone else has to be sent and read


def make_link(user: User, base: str, life: int = LINK_SECONDS) -> str:
    """Return a URL that signs this person in, once.

    `base` is the origin (http://127.0.0.1:8000); the link expires after `life` seconds.
    The link is short enough for one line of a terminal. Its creation is recorded in the audit trail, since anyone who
    has it signs in as that person. For people who have never signed in, older links stop working.
    """
    if user.last_login is None:
        void_links(user)
    write_acts(Act("person.link", detail={"person": user.get_username(), "minutes": life // 60}))
    deadline = int(time.time()) + life
    return f"{base}/login/link/{user.pk}.{int_to_base36(deadline)}.{_signature(user, deadline)}/"


def void_links(user: User) -> None:
    """Void a person's links, and the sessions that the links started.

    For people without a password.
    """
    if not user.has_usable_password():
        user.set_unusable_password()  # contains a random part, and links are bound to it
        get_user_model().objects.filter(pk=user.pk).update(password=user.password)


def find_person(token: str) -> User | None:
    """Return the person that the link signs in.

    None if it is used, expired or useless.
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    deadline = base36_to_int(match["deadline"])
    person = get_user_model().objects.filter(pk=int(match["person"]), is_active=True).first()
    if deadline < time.time() or person is None:
        return None
    if not constant_time_compare(_signature(person, deadline), match["signature"]):
        return None
    return person if person.has_perm(VIEW) else None


def claim_link(token: str) -> User | None:
    """Use the link and return its person.

    None if it was used before.
    """
    person = find_person(token)
    if person is None:
        return None
    # If two people use the link at the same time, only one of them updates the row.
    people = get_user_model().objects.filter(pk=person.pk, is_active=True, last_login=person.last_login)
    return person if people.update(last_login=timezone.now()) else None


def _signature(user: User, deadline: int) -> str:
    """Return 128 bits over the person, the deadline, and everything that invalidates older links.

    These are a sign-in, a new password, and becoming a superuser: an older link never gives more rights than it
    had.
    """
    text = f"{user.pk}:{deadline}:{user.password}:{user.last_login}:{user.is_superuser}"
    digest = salted_hmac(SALT, text, algorithm="sha256").digest()
    return urlsafe_b64encode(digest[:16]).decode().rstrip("=")
