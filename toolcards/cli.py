"""The `toolcards` command: Django's management commands with our settings; `acp` and `hook`, which need neither."""

import gc
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ROOT / ".venv" / "bin" / "python"  # what `make run` made in a checkout


def main() -> None:
    """Run the command named on the command line."""
    if sys.argv[1:2] == ["acp"]:
        from toolcards.acp import main as acp

        raise SystemExit(acp(sys.argv[2:]))
    if sys.argv[1:2] == ["hook"]:
        from toolcards.hook_relay import main as hook

        raise SystemExit(hook(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    # What is being loaded is no garbage: looking through it all the time takes a tenth of a start.
    gc.set_threshold(200_000, 20, 20)
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        if OURS.exists() and Path(sys.prefix) != OURS.parents[1]:  # any Python may be typed in a checkout
            os.execv(OURS, [str(OURS), *_again()])  # noqa: S606 - does not come back
        raise SystemExit("Django is not installed here. `make run` sets everything up.") from error
    from django.core.exceptions import ImproperlyConfigured

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a variable is set to what cannot be meant: that needs a line, no traceback
        if "--traceback" in sys.argv:
            raise
        raise SystemExit(f"toolcards: {error}") from None


def _again() -> list[str]:
    """Return the words that start this very command in another Python."""
    script = Path(sys.argv[0])
    return ["-m", "toolcards", *sys.argv[1:]] if script.name == "__main__.py" else sys.argv
