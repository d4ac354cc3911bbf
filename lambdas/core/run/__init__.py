"""A run and its end: records, deadlines, recovery, summary."""
