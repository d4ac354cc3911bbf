"""Instances after their launch: states, spot requests, and instance metadata."""
