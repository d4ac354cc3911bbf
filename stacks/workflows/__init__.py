"""Workflows, a folder each: the definition, and the construct that owns all its parts. Beside them, shared
functions."""
