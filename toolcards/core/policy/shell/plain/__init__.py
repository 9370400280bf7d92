"""Plain command lines: their words, variables, redirections, lists and loops, read exactly as every shell does."""
