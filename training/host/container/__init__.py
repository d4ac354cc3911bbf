"""Container images: pull, unpack, and make one the root of a program."""
