"""Hides secrets: finds them by name, place and form, and masks them.

What counts as a secret is in `detectors` and the modules that it names; `masks` is what is shown in their place.
"""
