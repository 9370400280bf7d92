"""Notification settings and deliveries as pages."""
