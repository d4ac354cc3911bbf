"""The data sets of the reference programs: readers, and generators for machines that cannot fetch the real ones."""
