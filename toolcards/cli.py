"""The `toolcards` command: Django's management commands with our settings, and the client's, which need neither."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from toolcards import __version__

ROOT = Path(__file__).parents[1]
CHECKOUT_PYTHON = ROOT / ".venv" / "bin" / "python"  # created by `make run`
SITE = Path(__file__).parent / "_site"  # holds `dashboard` in an installed copy; see the wheel in pyproject.toml
OWN_APPS = {"toolcards", "dashboard"}
INTERNAL = {"runserver", "simulate"}  # `runserver` is listed with Django's; `simulate` is started by the server
# Of Django's commands, `help` lists these; the others can be run, but make no sense for people who run this server.
DJANGO_COMMANDS = (
    "changepassword", "check", "clearsessions", "dbshell", "makemigrations", "migrate", "runserver", "shell",
    "showmigrations",
)  # fmt: skip


def main() -> None:
    """Run the command named on the command line."""
    if sys.argv[1:] in (["--version"], ["version"]):
        print(f"toolcards {__version__}")  # noqa: T201
        return
    if sys.argv[1:2] == ["acp"]:
        from toolcards.acp import main as run_acp

        raise SystemExit(run_acp(sys.argv[2:]))
    if sys.argv[1:2] == ["mcp"]:
        from toolcards.mcp import main as run_mcp

        raise SystemExit(run_mcp(sys.argv[2:]))
    if sys.argv[1:2] == ["hook"]:
        from toolcards.hook_relay import main as run_hook

        raise SystemExit(run_hook(sys.argv[2:]))
    if sys.argv[1:2] == ["approvals"]:
        from toolcards.terminal import main as run_approvals

        raise SystemExit(run_approvals(sys.argv[2:]))
    if SITE.is_dir() and str(SITE) not in sys.path:
        sys.path.insert(0, str(SITE))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    # Modules being loaded are not garbage: to look at all of them once takes a tenth of the start.
    gc.set_threshold(500_000, 20, 20)
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import ManagementUtility
        from django.db.utils import DatabaseError
    except ImportError as error:
        if CHECKOUT_PYTHON.exists() and Path(sys.prefix) != CHECKOUT_PYTHON.parents[1]:  # started with another Python
            os.execv(CHECKOUT_PYTHON, [str(CHECKOUT_PYTHON), *_restart_arguments()])  # noqa: S606 - does not return
        raise SystemExit("Django is not installed. Run `make run`, which sets everything up.") from error

    class Utility(ManagementUtility):
        def __init__(self, argv: list[str]) -> None:
            super().__init__(argv)
            if Path(argv[0]).name == "__main__.py":
                self.prog_name = "python -m toolcards"

        def main_help_text(self, commands_only: bool = False) -> str:
            return format_help(self, commands_only)

    try:
        Utility(sys.argv).execute()
    except ImproperlyConfigured as error:  # a setting is invalid: one line, no traceback
        if "--traceback" in sys.argv:
            raise
        raise SystemExit(f"toolcards: {error}") from None
    except DatabaseError:
        if "--traceback" in sys.argv or _has_tables():
            raise
        raise SystemExit("toolcards: The database has no tables yet. `serve` creates them: start it first.") from None


def _has_tables() -> bool:
    """Return whether a server was started on the database before."""
    from django.db import connection
    from django.db.utils import DatabaseError

    try:
        return "django_migrations" in connection.introspection.table_names()
    except DatabaseError:
        return True  # another fault: its own error says more


def format_help(utility: object, commands_only: bool = False) -> str:
    """Return the text of `toolcards help`: our commands and some of Django's."""
    from django.core.management import get_commands, load_command_class

    apps = {name: app if isinstance(app, str) else app.__module__ for name, app in get_commands().items()}
    own = sorted(name for name, app in apps.items() if app.partition(".")[0] in OWN_APPS and name not in INTERNAL)
    if commands_only:
        return "\n".join(sorted([*own, "acp", "approvals", "hook", "mcp", *DJANGO_COMMANDS]))
    purposes = {name: load_command_class(apps[name], name).help for name in own}
    purposes["acp"] = "Run as a proxy between an editor and an agent (Agent Client Protocol)."
    purposes["mcp"] = "Run as a gateway between an MCP client and an MCP server: hold each tool call for a decision."
    purposes["approvals"] = "List, watch and answer the calls that wait for a person, with a personal token."
    purposes["hook"] = "Relay one hook of a coding agent; `connect` writes this command."
    lines = [f"  {name:13} {purpose}" for name, purpose in sorted(purposes.items())]
    program = getattr(utility, "prog_name", "toolcards")
    return "\n".join(
        [
            f"Toolcards {__version__}. Type '{program} help <command>' for the options of a command.",
            "", "Commands", *lines, "", "Commands of Django", *(f"  {name}" for name in DJANGO_COMMANDS),
        ]
    )  # fmt: skip


def _restart_arguments() -> list[str]:
    """Return the arguments that start this command in another Python."""
    script = Path(sys.argv[0])
    return ["-m", "toolcards", *sys.argv[1:]] if script.name == "__main__.py" else sys.argv
