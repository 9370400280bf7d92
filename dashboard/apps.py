"""Tells Django about the site, and registers its system checks."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages, forms and sockets for people."""

    name = "dashboard"
    verbose_name = "Dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and what is told of sign-ins, people and deletions, once all apps are loaded."""
        from dashboard import checks, deletions, personlog, signins  # noqa: F401
