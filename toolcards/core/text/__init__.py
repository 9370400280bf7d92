"""Texts and their JSON, whatever they mean: ropes, prefixes, signatures for search, terminal sequences."""
