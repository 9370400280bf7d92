"""The Django app of the engine."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class ToolcardsConfig(AppConfig):
    """The engine's tables and commands."""

    name = "toolcards"
    verbose_name = "Toolcards"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Prepare each connection for the triggers of the log."""
        from toolcards.models import write_guard

        connection_created.connect(write_guard.prepare_connection)
