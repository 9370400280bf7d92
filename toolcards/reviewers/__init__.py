"""Asks reviewers about questions, before people answer: apart from the gate, which records what became of each."""
