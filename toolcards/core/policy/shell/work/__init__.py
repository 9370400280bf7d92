"""What commands do for a project: the classes of work, the project's own programs, and words that stay inside."""
