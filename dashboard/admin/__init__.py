"""The Django admin: the log is read, approvals are answered through the gate, the draft is written like on the site."""

from django.contrib import admin

from dashboard.admin import approvals, keys, log, people, policy

admin.site.site_header = admin.site.site_title = "Toolcards"
admin.site.index_title = "Administration"

__all__ = ["approvals", "keys", "log", "people", "policy"]
