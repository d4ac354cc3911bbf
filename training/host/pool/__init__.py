"""A host in the warm pool: it is wiped after one run and waits for the next."""
