"""Shell commands: the programs that a line runs and their effects, by static analysis.

`plain` reads lines that are plain; `catalogs` reads the TOML catalogs next to them; `analysis`
computes the effects of one command, `nested_commands` finds the commands among its words (sudo, env, xargs, sh -c), and
`wrappers` follows them to all commands that may run. `script` combines this for a whole line, and `rule_operands` holds
the operands of rules for commands.
"""
