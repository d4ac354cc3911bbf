"""Read the text of a job file into a job, or into all of its faults at once."""
