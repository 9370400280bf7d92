"""Database sessions read by a precompiled statement, since every request of a person reads one."""

from __future__ import annotations

from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

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
