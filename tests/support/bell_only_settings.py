"""Settings of test servers that never read without a ring: everything that arrives was rung."""

from django.apps import AppConfig

from tests.support.settings import *  # noqa: F403 - whatever there is
from tests.support.settings import INSTALLED_APPS


class Unhurried(AppConfig):
    """Makes the heartbeats of followers so long that none occurs during a test."""

    name = "tests.support.bell_only_settings"
    label = "unhurried"

    def ready(self) -> None:
        """Set the heartbeats before followers start."""
        from dashboard.live import changes, hub
        from toolcards import feed

        feed.HEARTBEAT = hub.HEARTBEAT_SECONDS = changes.HEARTBEAT_SECONDS = 3600.0


INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.bell_only_settings.Unhurried"]
