"""Runs and calls: their tables and their pages."""
