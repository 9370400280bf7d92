"""What agents send: frames, results, heartbeats, and the end of a run."""
