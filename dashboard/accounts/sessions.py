"""Database sessions read by a precompiled statement, since every request of a person reads one."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model, load_backend
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from toolcards.models.prepared import PreparedSelect


class SessionStore(DatabaseSessionStore):
    """Django's database sessions."""

    def _get_session_from_db(self) -> Session | None:
        session = _SESSION.fetch_first(self.session_key)
        if session is not None and session.expire_date > timezone.now():
            return session
        self._session_key = None
        return None


_SESSION = PreparedSelect(Session, "WHERE session_key = %s")


def find_person(session: SessionStore) -> User | None:
    """Return the active person whose session it is, or None.

    Unlike Django's `get_user`, it writes nothing. A session that Django would renew, because it was signed with an
    older key, has no person here.
    """
    backend = session.get(BACKEND_SESSION_KEY, "")
    if backend not in settings.AUTHENTICATION_BACKENDS or SESSION_KEY not in session:
        return None
    pk = get_user_model()._meta.pk.to_python(session[SESSION_KEY])
    person = load_backend(backend).get_user(pk)
    proof = session.get(HASH_SESSION_KEY) or ""
    if not isinstance(person, User) or not constant_time_compare(proof, person.get_session_auth_hash()):
        return None
    return person
