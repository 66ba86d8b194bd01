"""Audit of training runs: deterministic rules, measured evidence, honest coverage."""
