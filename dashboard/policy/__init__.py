"""The policy pages: rules and their texts, dry runs, and simulations of drafts over past calls."""
