"""The pure heart: what a tool call is, what may happen to it, and what policy says. No Django here."""
