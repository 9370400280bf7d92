"""Shell commands: the programs that a line runs and their effects, by static analysis.

`parser` accepts plain lines only; `catalogs` reads the TOML catalogs next to them; `analysis` computes the effects of
one command and `wrappers` finds the commands behind sudo, env or sh -c. `script` combines this
for a whole line, and `rule_operands` holds the operands of rules for commands.
"""
