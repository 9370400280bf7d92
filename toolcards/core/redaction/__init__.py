"""Hides secrets: finds them by name, place and form, and masks them."""
