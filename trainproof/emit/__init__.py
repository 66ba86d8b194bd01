"""Emitters: pure functions from the finished report to bytes."""
