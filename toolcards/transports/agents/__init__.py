"""How agents connect: sockets, HTTP, Claude Code's hooks and the AG-UI proxy."""
