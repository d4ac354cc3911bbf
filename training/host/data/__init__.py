"""Download the job's data from the bucket to this host's disk."""
