"""`make demo`: the yard on this machine, from nothing to an evaluated model, and nothing left behind."""
