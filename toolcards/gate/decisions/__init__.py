"""Decisions: judges calls by policy, grants and plug-ins."""
