"""Exact weights in place of trained ones."""
