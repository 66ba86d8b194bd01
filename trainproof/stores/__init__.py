"""Stores: a root given by the caller to a Store."""
