"""Instances after their launch: states, spot requests, what a host learns about itself."""
