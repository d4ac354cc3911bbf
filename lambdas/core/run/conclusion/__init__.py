"""A run's end: the reason, the steps, and the summary."""
