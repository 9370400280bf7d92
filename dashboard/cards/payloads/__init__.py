"""Inputs and outputs for people: colors, trees, tables, patches, Markdown and pictures.

`body.render_body` is the entry point; `excerpts` says how much of a value a card shows. All text is escaped, each part
has a limit, and the raw text is always available.
"""
