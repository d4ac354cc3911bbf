"""A job's way from a person's folder into the bucket."""
