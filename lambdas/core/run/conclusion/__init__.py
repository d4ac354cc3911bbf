"""A run's end: why it ended, how far it came, and the summary that says so."""
