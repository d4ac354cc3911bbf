"""A study: several trials of one job, to find its best parameters. Pure decisions."""
