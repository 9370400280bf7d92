"""Reviews of questions before people: what a reviewer is shown, how its answer is read, and when it may not approve."""
