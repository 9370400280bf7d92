"""The Django admin: read-only log, approvals through the gate, and the draft with the site's own form."""

from django.contrib import admin

from dashboard.admin import approvals, keys, log, people, policy

admin.site.site_header = admin.site.site_title = "Toolcards"
admin.site.index_title = "Administration"

__all__ = ["approvals", "keys", "log", "people", "policy"]
