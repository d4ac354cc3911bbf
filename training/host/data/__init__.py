"""The job's data, from the bucket onto this host's disk."""
