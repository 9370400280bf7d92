"""Tells Django about the engine."""

from django.apps import AppConfig


class ToolcardsConfig(AppConfig):
    """The engine's tables and commands."""

    name = "toolcards"
    verbose_name = "Toolcards"
    default_auto_field = "django.db.models.BigAutoField"
