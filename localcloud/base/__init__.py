"""Foundations of the local cloud: settings, state and context."""
