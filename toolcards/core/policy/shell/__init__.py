"""Shell commands: what a line runs and does, as far as static reading can tell.

`parser` accepts plain lines only; `program_catalog` and `tool_catalog` read the TOML catalogs next to them; `analysis`
computes the effects of one command and `wrappers` finds the commands behind sudo, env or sh -c. `script` combines this
for a whole line, and `rule_operands` holds what rules compare it with.
"""
