"""Outputs: the files that a program writes into its working folder. They are uploaded, and restored in later
attempts."""
