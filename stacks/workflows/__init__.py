"""Workflows, a folder each with the construct that owns all parts, and functions that workflows share."""
