"""Rules of the draft: their form, their pages, and rules suggested from a call."""
