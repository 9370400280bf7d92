"""Notifications: who subscribes to what, and each delivery with its result.

A channel is a text in `formats` and a way to send it in `dispatcher`.
"""
