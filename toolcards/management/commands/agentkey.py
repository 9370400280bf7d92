"""Agent keys from the command line: create, list, revoke."""

import argparse
import re

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from toolcards.gate import policy_store
from toolcards.models import EVERY_SCOPE, SCOPES, AgentKey
from toolcards.models.sources import MAX_KEY_DAYS, compute_key_expiry

MAX_ENV_LENGTH = 100


class Command(BaseCommand):
    """Creates, lists and revokes agent keys."""

    help = "Create, list and revoke agent keys."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the three actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser(
            "create", help="create a key; its secret is the last line of the output, and is not stored"
        )
        create.add_argument("name", help="the agent program that will use it")
        create.add_argument(
            "--scopes", nargs="+", default=list(SCOPES),
            help=f"one or more of: {' '.join(EVERY_SCOPE)} (default: all but {EVERY_SCOPE[-1]})",
        )  # fmt: skip
        create.add_argument(
            "--expires-in", type=int, metavar="DAYS", help="days after which the key stops working (default: never)"
        )
        create.add_argument("--owner", default="", help="the owner: the person that the agent works for")
        create.add_argument("--env", default="", help="the environment, as rules name it: prod, dev, …")
        actions.add_parser("list", help="list all keys")
        revoke = actions.add_parser("revoke", help="revoke a key, or all keys of a name")
        revoke.add_argument("name", help="the agent program's name, or the key's prefix")

    def handle(self, *, action: str, **options: object) -> None:
        """Run the action."""
        getattr(self, f"_{action}")(**options)

    def _create(
        self, *, name: str, scopes: list[str], expires_in: int | None = None, owner: str = "", env: str = "",
        **options: object,
    ) -> None:  # fmt: skip
        scope_list = [scope for scope in re.split(r"[\s,]+", " ".join(scopes)) if scope]
        name = name.strip()
        if not scope_list or not name or len(name) > 200:
            raise CommandError("A key needs a name of at most 200 characters and at least one scope.")
        if len(env) > MAX_ENV_LENGTH:
            raise CommandError(f"The name of an environment has at most {MAX_ENV_LENGTH} characters.")
        if expires_in is not None and not 1 <= expires_in <= MAX_KEY_DAYS:
            raise CommandError(f"A key can expire in 1 to {MAX_KEY_DAYS} days.")
        person = get_user_model().objects.filter(username=owner, is_active=True).first() if owner else None
        if owner and person is None:
            raise CommandError(f"No active person is named {owner}.")
        try:
            # In the order of EVERY_SCOPE, each once, so that equal rights read equal.
            ordered_scopes = tuple(sorted(set(scope_list), key=_get_position))
            key, secret = AgentKey.objects.issue(name, ordered_scopes, expires_at=compute_key_expiry(expires_in))
        except ValueError as error:
            raise CommandError(f"{error}. The scopes are: {' '.join(EVERY_SCOPE)}") from error
        key.source.change(**{name: value for name, value in (("owner", person), ("env", env)) if value})
        if person and policy_store.is_default_unanswerable(key.source):
            self.stdout.write(
                f"Warning: only {owner} could approve what the policy's default requires approval for, and"
            )
            self.stdout.write(
                "owners cannot approve by default. Add an approver, or see `default_ask` in docs/policy.md."
            )
        end = f", until {key.expires_at:%Y-%m-%d %H:%M} UTC" if key.expires_at else ""
        self.stdout.write(
            f"Key {key.prefix}… for {name} with the scopes {key.scopes}{end}. Its secret, shown only once:"
        )
        self.stdout.write(secret)

    def _list(self, **options: object) -> None:
        for key in AgentKey.objects.select_related("source").order_by("source__name", "id"):
            last_use = f"used {key.used_at:%Y-%m-%d %H:%M}" if key.used_at else "never used"
            self.stdout.write(f"{key.prefix}…  {key.source.name}  [{key.scopes}]  {_describe_state(key)}, {last_use}")

    def _revoke(self, *, name: str, **options: object) -> None:
        name = name.removesuffix("…")
        keys = AgentKey.objects.filter(Q(source__name=name) | Q(prefix=name), revoked_at=None)
        revoked_count = keys.update(revoked_at=timezone.now())
        if not revoked_count:
            raise CommandError(f"No active key is named {name}.")
        self.stdout.write(f"Revoked: {revoked_count}. Open connections close within seconds.")


def _get_position(scope: str) -> int:
    return EVERY_SCOPE.index(scope) if scope in EVERY_SCOPE else len(EVERY_SCOPE)


def _describe_state(key: AgentKey) -> str:
    if key.revoked_at:
        return "revoked"
    if key.expires_at is None:
        return "active"
    return "expired" if key.expires_at <= timezone.now() else f"active until {key.expires_at:%Y-%m-%d %H:%M}"
