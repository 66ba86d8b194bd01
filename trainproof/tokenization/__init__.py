"""Tokenizers: what their files declare, and what they do to a text."""
