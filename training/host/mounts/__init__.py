"""Data that a program reads where they lie: file systems that the agent mounts, as root, before the program starts."""
