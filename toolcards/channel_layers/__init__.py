"""Channels' layer, with what a server that is mostly idle needs."""
