"""Find out if a dev host is in use: publish that for patrol, and warn users before patrol finds the host idle."""
