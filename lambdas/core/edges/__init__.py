"""The events that reach functions."""
