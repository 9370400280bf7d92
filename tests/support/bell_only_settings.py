"""The settings of test servers that never look without a ring: what comes all the same, a bell has brought."""

from django.apps import AppConfig

from tests.support.settings import *  # noqa: F403 - whatever there is
from tests.support.settings import INSTALLED_APPS


class Unhurried(AppConfig):
    """Makes the heartbeats of followers so long that none comes while a test runs."""

    name = "tests.support.bell_only_settings"
    label = "unhurried"

    def ready(self) -> None:
        """Set them before anything follows."""
        from dashboard.live import changes, hub
        from toolcards import feed

        feed.HEARTBEAT = hub.HEARTBEAT_SECONDS = changes.HEARTBEAT_SECONDS = 3600.0


INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.bell_only_settings.Unhurried"]
