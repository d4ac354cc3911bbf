"""Capacity: the number of instances that may start in each pool."""
