"""Adapters to other libraries, each behind an extra of its own and loaded only when it is imported."""
