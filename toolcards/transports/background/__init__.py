"""What a server process does in the background: scheduled jobs, leases of connections, readiness, anchor copies."""
