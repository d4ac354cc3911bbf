"""`make demo`: a yard on this machine, from an empty folder to an evaluated model, with cleanup."""
