"""What both ends must agree on, once: kinds of tools, faults, equal JSON, and what can be mended. Standard library."""
