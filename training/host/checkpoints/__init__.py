"""Checkpoints between the program's folder and the bucket."""
