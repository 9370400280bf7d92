"""Runs and calls: tables, pages, filters and exports; the Now page."""
