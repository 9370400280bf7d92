"""The Django app of the site; registers system checks."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages, forms and sockets for people."""

    name = "dashboard"
    verbose_name = "Dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register system checks and signal receivers."""
        from dashboard import checks  # noqa: F401
        from dashboard.accounts import audit_signals, sign_in_log  # noqa: F401
        from dashboard.serving import page_handler  # noqa: F401
