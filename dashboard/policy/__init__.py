"""What the policy pages know: rules as people read and write them, trials, and drafts held against the past."""
