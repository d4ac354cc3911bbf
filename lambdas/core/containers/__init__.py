"""Container images: what a registry answered, and the sentences for a job that cannot use one. Pure."""
