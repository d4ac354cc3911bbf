"""Outputs: the files that a program writes into its working folder, kept in the bucket and restored from there."""
