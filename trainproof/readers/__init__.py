"""Readers: the table of built-ins, in order of claim."""
