"""Shell commands: what a line runs and does, as far as it can be told.

`parser` accepts plain lines only, `programs` and `tools` hold the catalogues, `judgement` says what one command does,
`wrappers` what stands behind it; `reader` puts that together for a line, `wanted` is what rules ask.
"""
