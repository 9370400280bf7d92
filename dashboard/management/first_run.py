"""Creates what a new server needs: roles, a first admin, and a key for the first agent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import Group, User
from django.db import close_old_connections

from dashboard.accounts import audit_signals, roles
from dashboard.environment import Environment
from toolcards import demo
from toolcards.gate import policy_draft
from toolcards.models import AgentKey

ADMIN = "admin"
FIRST_AGENT = "my-agent"


@dataclass(frozen=True, slots=True)
class FirstRun:
    """What the start prints once: the admin who needs a sign-in link, and the first key's secret."""

    admin: User | None
    agent_key: str = ""


def prepare(env: Environment, *, shows_key: bool = True) -> FirstRun:
    """Create what is missing; later calls change nothing.

    `shows_key`: someone reads the secret of the first key; without readers there is no such key.
    """
    roles.ensure_roles()
    policy_draft.ensure_first_version(env.default_effect)
    admin = _ensure_admin(env.admin_password.get_secret_value() if env.admin_password else "")
    secret = _ensure_agent_key(env.agent_key.get_secret_value() if env.agent_key else "", shows_key=shows_key)
    keeps = admin is not None and admin in roles.list_admins() and not admin.has_usable_password()
    return FirstRun(admin=admin if keeps else None, agent_key=secret)


def _ensure_admin(password: str) -> User | None:
    """Return user `admin`, created if there is no admin; sets a new password.

    None if another admin manages this server.
    """
    users = get_user_model().objects
    admin = users.filter(username=ADMIN).first()
    if admin is None:
        if not password and roles.list_admins().exists():
            return None  # another admin manages this server
        with audit_signals.record_as_one_act("person.created", ADMIN):
            admin = users.create_superuser(username=ADMIN, password=password or None)
            admin.groups.add(Group.objects.get(name="admin"))
    # Hashing the same password again would end all sessions of the admin.
    elif password and not check_password(password, admin.password):
        admin.set_password(password)
        audit_signals.save_person(admin, update_fields=["password"])
    return admin


def _ensure_agent_key(secret: str, *, shows_key: bool) -> str:
    """Ensure the given key, or create the first one; return a new secret or ""."""
    if secret:
        AgentKey.objects.ensure(secret)
        return ""
    if not shows_key or AgentKey.objects.exclude(source__name=demo.SOURCE).exists():
        return ""
    return AgentKey.objects.issue(FIRST_AGENT)[1]


@contextmanager
def temporary_demo_key() -> Iterator[str]:
    """Yield the secret of a key that is deleted afterwards."""
    AgentKey.objects.filter(source__name=demo.SOURCE).delete()
    key, secret = AgentKey.objects.issue(demo.SOURCE)
    try:
        yield secret
    finally:
        close_old_connections()
        key.delete()
