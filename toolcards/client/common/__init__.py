"""What client and server share: tool kinds, error codes, canonical JSON, input repair. Standard library only."""
