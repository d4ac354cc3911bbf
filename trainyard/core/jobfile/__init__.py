"""From the text of a job file to a job, or to every fault of it at once."""
