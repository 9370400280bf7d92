"""Lasting answers: rules that one press on a question writes, and what each of them covers."""
