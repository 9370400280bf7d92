"""The app of the site: its start registers the checks and the receivers that the site relies on."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import signals as auth_signals
from django.contrib.auth.models import Group, User
from django.core.checks import registry
from django.core.signals import request_finished
from django.db.models import signals
from django.dispatch import Signal

from dashboard.apps import DashboardConfig


def list_receivers(signal: Signal, sender: Any = None) -> set[str]:
    """Return the modules of this site that receive the signal."""
    receivers = (receiver for group in signal._live_receivers(sender) for receiver in group)
    return {receiver.__module__ for receiver in receivers if receiver.__module__.startswith("dashboard.")}


def test_the_app_comes_before_the_static_files_whose_server_it_replaces() -> None:
    config = apps.get_app_config("dashboard")
    assert isinstance(config, DashboardConfig) and config.default_auto_field.endswith("BigAutoField")
    names = [each.name for each in apps.get_app_configs()]
    assert names.index("dashboard") < names.index("django.contrib.staticfiles")


def test_a_start_registers_checks_and_receivers() -> None:
    assert any(check.__module__ == "dashboard.checks" for check in registry.registry.get_checks())
    audit, log = "dashboard.accounts.audit_signals", "dashboard.accounts.sign_in_log"
    assert audit in list_receivers(signals.pre_save, User) & list_receivers(signals.pre_save, Group)
    for signal in (auth_signals.user_logged_in, auth_signals.user_logged_out, auth_signals.user_login_failed):
        assert log in list_receivers(signal)
    assert "dashboard.notifications.push_views" in list_receivers(auth_signals.user_logged_out)
    assert "dashboard.serving.page_handler" in list_receivers(request_finished)
