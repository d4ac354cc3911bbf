"""The submission of a job: from a user's folder to the bucket."""
