"""The policy as YAML text: reading with line numbers, writing with the comments kept, and the editor."""
