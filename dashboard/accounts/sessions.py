"""Database sessions read by a precompiled statement, since every request of a person reads one."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from toolcards.models import PersonalToken
from toolcards.models.prepared_selects import PreparedSelect


class SessionStore(DatabaseSessionStore):
    """Django's database sessions."""

    def _get_session_from_db(self) -> Session | None:
        session = _SESSION.fetch_first(self.session_key)
        if session is not None and session.expire_date > timezone.now():
            return session
        self._session_key = None
        return None


_BACKEND = "django.contrib.auth.backends.ModelBackend"  # the only one that can be asked by a statement
_SESSION = PreparedSelect(Session, "WHERE session_key = %s")
_PERSON = PreparedSelect(User, "WHERE id = %s AND is_active")


def find_person(session: SessionStore) -> User | None:
    """Return the active person whose session it is, or None.

    Unlike Django's `get_user`, it writes nothing. A session that Django would renew, because it was signed with an
    older key, has no person here.
    """
    if session.get(BACKEND_SESSION_KEY) != _BACKEND or _BACKEND not in settings.AUTHENTICATION_BACKENDS:
        return None
    person = _PERSON.fetch_first(int(session.get(SESSION_KEY, 0)))
    proof = session.get(HASH_SESSION_KEY) or ""
    if person is None or not constant_time_compare(proof, person.get_session_auth_hash()):
        return None
    return person


def is_still_signed_in(request: HttpRequest) -> bool:
    """Return whether the session or personal token is still its person's.

    The person may have signed out, or changed the password, since the middleware read it.
    """
    if token := getattr(request, "personal_token", None):
        return PersonalToken.objects.live().filter(pk=token.pk).exists()
    session = SessionStore(request.session.session_key)
    person = _PERSON.fetch_first(request.user.pk)
    if person is None or session.get(SESSION_KEY) != str(person.pk):
        return False
    proof = session.get(HASH_SESSION_KEY) or ""
    hashes = (person.get_session_auth_hash(), *person.get_session_auth_fallback_hash())
    return any(constant_time_compare(proof, valid) for valid in hashes)
