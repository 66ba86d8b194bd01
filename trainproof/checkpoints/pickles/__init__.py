"""Pickles, read as data: opcodes become inert records, and nothing they name is looked up."""
