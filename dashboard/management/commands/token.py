"""Personal tokens from the command line: create, list, revoke."""

import argparse
import re

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from toolcards.models import PersonalToken
from toolcards.models.people import MAX_TOKENS, TOKEN_SCOPES, TooManyTokens, list_granted_scopes


class Command(BaseCommand):
    """Creates, lists and revokes personal tokens."""

    help = "Manage personal tokens, with which programs act as their person."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the three actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser(
            "create", help="create a token; its secret is the last line of the output, and is not stored"
        )
        create.add_argument("person", help="the person that it acts for")
        create.add_argument("--name", default="command line", help="what will use it (default: %(default)s)")
        create.add_argument(
            "--scopes", nargs="+", default=["read", "vote"],
            help=f"one or more of: {' '.join(TOKEN_SCOPES)} (default: read vote)",
        )  # fmt: skip
        create.add_argument("--expires-in", type=int, default=30, metavar="DAYS", help="default: %(default)s")
        actions.add_parser("list", help="list all tokens that work")
        revoke = actions.add_parser("revoke", help="revoke all tokens of a person, or one by its prefix")
        revoke.add_argument("name", help="the person's name, or the token's prefix")

    def handle(self, *, action: str, **options: object) -> None:
        """Run the action."""
        getattr(self, f"_{action}")(**options)

    def _create(self, *, person: str, name: str, scopes: list[str], expires_in: int, **options: object) -> None:
        user = User.objects.filter(username=person, is_active=True).first()
        if user is None:
            raise CommandError(f"No active person is named {person}.")
        scope_names = {scope for scope in re.split(r"[\s,]+", " ".join(scopes)) if scope}
        if not name.strip() or len(name) > 100:
            raise CommandError("A token needs a name of at most 100 characters.")
        try:
            token, secret = PersonalToken.objects.issue(user, name.strip(), scope_names, expires_in)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
        except TooManyTokens:
            raise CommandError(f"{person} already has {MAX_TOKENS} tokens; revoke one first.") from None
        useless = scope_names - list_granted_scopes(user, scope_names)
        if useless:
            self.stdout.write(f"Warning: the role of {person} does not permit: {' '.join(sorted(useless))}.")
        self.stdout.write(
            f"Token {token.prefix}… of {person} with the scopes {token.scopes}, until"
            f" {token.expires_at:%Y-%m-%d %H:%M} UTC. Its secret, shown only once:"
        )
        self.stdout.write(secret)

    def _list(self, **options: object) -> None:
        for token in PersonalToken.objects.live().select_related("person").order_by("person__username", "id"):
            last_use = f"used {token.used_at:%Y-%m-%d %H:%M}" if token.used_at else "never used"
            end = f"until {token.expires_at:%Y-%m-%d %H:%M}"
            self.stdout.write(f"{token.prefix}…  {token.person}  {token.name}  [{token.scopes}]  {end}, {last_use}")

    def _revoke(self, *, name: str, **options: object) -> None:
        person = get_user_model().objects.filter(username=name).first()
        tokens = PersonalToken.objects.all()
        tokens = tokens.filter(person=person) if person else tokens.filter(prefix=name.removesuffix("…"))
        revoked_count = tokens.revoke()
        if not revoked_count:
            raise CommandError(f"No person with tokens, and no token, is named {name}.")
        self.stdout.write(f"Revoked: {revoked_count}.")
