"""Transfer checkpoints between the program's folder and the bucket."""
