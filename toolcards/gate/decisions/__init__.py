"""Decisions: judges calls by policy, grants and plugins."""
