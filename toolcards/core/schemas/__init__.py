"""Validate values against a JSON Schema, and repair inputs that do not fit."""
