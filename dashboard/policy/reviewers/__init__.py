"""The page of reviewers: their prompts, whether they work, and their answers next to those of people."""
