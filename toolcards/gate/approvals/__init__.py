"""Approvals: votes, permits, expiry, and delivery of the answer to the agent."""
