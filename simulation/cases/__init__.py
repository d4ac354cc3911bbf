"""Worlds as they are tried: one, one with each fault, many by chance, side by side."""
