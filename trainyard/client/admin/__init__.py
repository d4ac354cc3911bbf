"""The yard in its account: what it lacks, how it is, who may use it, and its end."""
