"""The `toolcards` command: Django's management commands, with our settings; and `acp`, which needs neither."""

import os
import sys


def main() -> None:
    """Run the command named on the command line."""
    if sys.argv[1:2] == ["acp"]:
        from toolcards.acp import main as acp

        raise SystemExit(acp(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit("Django is not installed here. `make run` sets everything up.") from error
    execute_from_command_line(sys.argv)
