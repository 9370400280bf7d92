"""What the modules for agent frameworks share: calls by their ids, pauses, forms, runs that open themselves.

The module of a framework itself is in the folder above: `langchain`, `openai_agents`, `pydantic_ai`.
"""
