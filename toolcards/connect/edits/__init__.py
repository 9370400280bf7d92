"""Edits of people's own files that can be undone exactly: everything else in them stays as typed."""
