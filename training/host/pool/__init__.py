"""A host between two runs: wiped of the first, it waits for the next."""
