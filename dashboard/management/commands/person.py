"""People from the command line: create one, assign a role, print a sign-in link."""

import argparse
import os
from contextlib import suppress

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from dashboard.accounts import roles, sign_in_links
from dashboard.management import first_run


class Command(BaseCommand):
    """Creates people, assigns roles and prints sign-in links."""

    help = "Manage people, their roles and their sign-in links."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the four actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser(
            "create", help="add a person; prints a sign-in link if TOOLCARDS_PERSON_PASSWORD is not set"
        )
        create.add_argument("name")
        create.add_argument("--role", choices=roles.ROLES, default="viewer")
        role = actions.add_parser("role", help="change a person's role")
        role.add_argument("name")
        role.add_argument("role", choices=roles.ROLES)
        link = actions.add_parser("link", help="print a sign-in link that works once, within 15 minutes")
        link.add_argument(
            "name", nargs="?", default=first_run.ADMIN, help="the person who signs in with it (default: %(default)s)"
        )
        actions.add_parser("list", help="list all people")
        for action in (create, link):
            action.add_argument(
                "--url", default=_get_base_url(), help="the address of this server (default: %(default)s)"
            )

    def handle(self, *, action: str, **options: str) -> None:
        """Run the action."""
        getattr(self, f"_{action}")(**options)

    def _create(self, *, name: str, role: str, url: str, **options: str) -> None:
        password = os.environ.get("TOOLCARDS_PERSON_PASSWORD", "")
        try:
            person = roles.create_person(name, role=role, password=password)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
        self.stdout.write(f"{name} is {role}.")
        if not password:
            self._say_link(person, url)

    def _role(self, *, name: str, role: str, **options: str) -> None:
        try:
            roles.assign_role(_find_person(name), role)
        except roles.LastAdmin:
            raise CommandError(f"{name} is the only admin; make someone else admin first.") from None
        self.stdout.write(f"{name} is {role}.")

    def _link(self, *, name: str, url: str, **options: str) -> None:
        person = _find_person(name)
        if not person.is_active:
            raise CommandError(f"{name} is deactivated and cannot sign in.")
        self._say_link(person, url)

    def _list(self, **options: str) -> None:
        for person in get_user_model().objects.order_by("username"):
            about = roles.get_role(person) or "no role"
            self.stdout.write(f"{person.get_username()}  {about}{'' if person.is_active else ', deactivated'}")

    def _say_link(self, person: User, url: str) -> None:
        self.stdout.write(f"Sign in once, within {sign_in_links.LINK_SECONDS // 60} minutes:")
        self.stdout.write(sign_in_links.make_link(person, url.rstrip("/")))


def _find_person(name: str) -> User:
    person = get_user_model().objects.filter(username=name).first()
    if person is None:
        raise CommandError(f"No person is named {name}.")
    return person


def _get_base_url() -> str:
    """Return the server's address: its origin, else that of the last start."""
    env = settings.TOOLCARDS
    if env.origins:
        return str(env.origins[0])
    address = ""
    with suppress(OSError, UnicodeDecodeError):
        address = (env.data_dir / "address").read_text().strip()
    return address or f"http://127.0.0.1:{env.port}"
