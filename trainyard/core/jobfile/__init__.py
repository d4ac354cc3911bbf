"""From the text of a job file to a job, or to all of its faults at once."""
