"""How full the disk of the data directory is. It is read whenever someone asks, and never while no one does."""

from __future__ import annotations

import shutil

from django.conf import settings


def read_used_share() -> float | None:
    """Return the used share of the disk, None if it is unknown.

    What only the system's administrator may use counts as used.
    """
    try:
        usage = shutil.disk_usage(settings.TOOLCARDS.data_dir)
    except OSError:
        return None
    return 1 - usage.free / usage.total if usage.total else None


def find_warning() -> int | None:
    """Return the percentage in use once it needs attention, else None."""
    share, limit = read_used_share(), settings.TOOLCARDS.disk_warning
    return int(share * 100) if limit and share is not None and share * 100 >= limit else None
