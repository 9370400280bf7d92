"""Notifications for people: the same happenings as webhooks, in words, with a link. Nothing is decided by a link."""
