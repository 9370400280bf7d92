"""Inputs and outputs as people read them: colors, trees, tables, patches, Markdown and pictures.

`body.render_body` is the way in. All text is escaped, each part has a limit, and the raw text is one press away.
"""
