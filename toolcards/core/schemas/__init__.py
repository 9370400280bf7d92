"""JSON Schema and JSON values: validation, input repair, canonical bytes."""
