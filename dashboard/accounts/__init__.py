"""Sign-in and people: roles, sessions, links, and limits on guessed passwords."""
