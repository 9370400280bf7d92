"""Runs and calls: tables, pages, filters and exports."""
