"""Job files from the files of other launchers: convert what has a counterpart, and report everything else."""
