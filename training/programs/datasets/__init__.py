"""The data sets of the reference programs: written for machines that cannot fetch the real ones, and read."""
