"""Hides secrets: finds them by name, place and form, and masks them.

What counts as a secret is in `sensitive_names` and `named_secrets` (names), `placed_secrets` (places) and
`token_patterns` (forms), which `detectors` asks; `masks` is what is shown in their place.
"""
