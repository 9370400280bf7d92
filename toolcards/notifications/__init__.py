"""Notifications: who subscribes to what, and each delivery with its result."""
