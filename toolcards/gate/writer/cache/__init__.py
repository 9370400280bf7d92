"""What a process keeps of runs and cards between commits."""
