"""The inbox: calls that wait for a person, their answers, and the answers of the past."""
