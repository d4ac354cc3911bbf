"""Capacity: candidates, their prices, and the order of launch requests."""
