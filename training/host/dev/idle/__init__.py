"""Whether anybody uses this dev host: what patrol is told, and who is warned before it takes the host for idle."""
