"""What happened, step by step: the events of a call, the step log of a run, skipped frames."""
