"""Policy documents: how people write rules, and how they are checked, compiled and described."""
